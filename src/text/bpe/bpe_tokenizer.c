/* From the description of a BPE tokenizer, as the readers fill it, to a Tokenizer: checks that every text can
 * be encoded, and computes what encoding and decoding look up. */
#include "text/bpe/bpe_tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "text/unicode.h"

Status bpe_tokenizer_open(BpeTokenizer **bpe, const char *name)
{
    BpeTokenizer *m = *bpe = calloc(1, sizeof **bpe);
    if (!m) return fail(NO_MEMORY, "no memory for --tokenizer %s", name);
    snprintf(m->name, sizeof m->name, "%s", name);
    m->eod = m->unknown = VOCAB_NONE;
    return OK;
}

void bpe_tokenizer_close(BpeTokenizer *m)
{
    if (!m) return;
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++) piece_cache_close(m->cache[i]);
    vocab_close(&m->vocab);
    vocab_close(&m->decoded);
    for (int i = 0; i < PIECE_PLACES; i++) vocab_close(&m->decoded_at[i]);
    decode_chain_close(&m->chain);
    token_trie_close(&m->trie);
    normalizer_close(&m->normalizer);
    normalizer_close(&m->segment_normalizer);
    merges_close(&m->merges);
    added_close(&m->added);
    pretokenizer_close(&m->pretokenizer);
    free(m->special);
    free(m);
}

Status bpe_mark_special(BpeTokenizer *m, int32_t id)
{
    if (!m->special && !(m->special = calloc(VOCAB_IDS_MAX, 1)))
        return fail(NO_MEMORY, "no memory for special tokens");
    m->special[id] = 1;
    return OK;
}

Status bpe_add_token(BpeTokenizer *m, AddedToken token)
{
    if (token.id < 0 || token.id >= VOCAB_IDS_MAX)
        return fail(BAD_FILE, "an added token with id %d", token.id);
    if (!vocab_has(&m->vocab, token.id)) {
        TRY(vocab_add(&m->vocab, token.id, token.text, token.bytes));
        TRY(bpe_mark_special(m, token.id));
    }
    return added_add(&m->added, token);
}

Status bpe_add_merge(BpeTokenizer *m, const uint8_t *left, int64_t left_bytes, const uint8_t *right,
                     int64_t right_bytes,
                       uint32_t rank)
{
    uint8_t joined[1024];
    int64_t prefix = m->prefix.bytes, bytes = left_bytes + right_bytes - prefix;
    if (bytes > (int64_t)sizeof joined)
        return fail(BAD_FILE, "merge %" PRIu32 " makes more than %zu bytes", rank, sizeof joined);
    if (right_bytes < prefix)
        return fail(BAD_FILE,
                    "merge %" PRIu32 ", %.*s %.*s: the right one lacks continuing_subword_prefix %s", rank,
                    (int)left_bytes, left, (int)right_bytes, right, m->prefix.text);
    memcpy(joined, left, (size_t)left_bytes);
    memcpy(joined + left_bytes, right + prefix, (size_t)(right_bytes - prefix));
    int32_t a = vocab_find(&m->vocab, left, left_bytes), b = vocab_find(&m->vocab, right, right_bytes);
    int32_t made = vocab_find(&m->vocab, joined, bytes);
    if (a < 0 || b < 0 || made < 0)
        return fail(BAD_FILE, "merge %" PRIu32 ", %.*s %.*s: %s is no token of the vocabulary", rank,
                    (int)left_bytes, left, (int)right_bytes, right,
                    made < 0 && a >= 0 && b >= 0 ? "what they make" : "one of them");
    return merges_add(&m->merges, a, b, rank, made);
}

static bool is_template_id(const BpeTokenizer *m, int32_t id)
{
    for (int i = 0; i < m->before.count; i++)
        if (m->before.id[i] == id) return true;
    for (int i = 0; i < m->after.count; i++)
        if (m->after.id[i] == id) return true;
    return false;
}

/* What the middle of a text has more of at the beginning of a token than the beginning of a text has */
static int64_t prefix_of(const BpeTokenizer *m, int32_t id, const char *text, int32_t bytes)
{
    const Vocab *first = &m->decoded_at[PIECE_FIRST];
    if (bytes == 0) return 0;
    if (!m->chain.steps)
        return m->prepends_mark && *text == ' '
            && (m->strip_first_space || *vocab_bytes(&m->vocab, id) == 0xE2);
    if (!vocab_has(first, id)) return decode_chain_prefix(&m->chain, (const uint8_t *)text, bytes);
    int32_t more = bytes - first->length[id];
    return more > 0 && !memcmp(text + more, vocab_bytes(first, id), (size_t)first->length[id]) ? more : 0;
}

static TextPiece bpe_tokenizer_decode(const Tokenizer *t, int32_t id)
{
    const BpeTokenizer *m = t->state;
    if (id == m->eod || !vocab_has(&m->decoded, id)) return (TextPiece){ .text = "" };
    const char *text = (const char *)vocab_bytes(&m->decoded, id);
    int32_t    bytes = m->decoded.length[id];
    return (TextPiece){ text, bytes, prefix_of(m, id, text, bytes) };
}

static TextPiece bpe_tokenizer_decode_at(const Tokenizer *t, int32_t id, int place)
{
    const BpeTokenizer *m = t->state;
    const Vocab *at = &m->decoded_at[place & decode_chain_places(&m->chain)];
    if (!at->ids) at = &m->decoded;
    if (id == m->eod || !vocab_has(at, id) || is_template_id(m, id)) return (TextPiece){ 0 };
    return (TextPiece){ (const char *)vocab_bytes(at, id), at->length[id], 0 };
}

/* ---- from a description to a tokenizer ---- */

static void tell_left_out(const BpeTokenizer *m)
{
    log_line("%s: characters that are no token are left out of a text, as by Hugging Face's library, because "
             "the model has neither an unk_token nor tokens for all bytes", m->name);
}

/* Finds the ids of single bytes, which are tokens of one byte, or <0x00> to <0xFF>. BAD_FILE where one is
 * missing that some text needs. */
static Status bytes_find(BpeTokenizer *m)
{
    bool all = true;
    for (int byte = 0; byte < 256; byte++) {
        char    token[8];
        uint8_t raw = (uint8_t)byte;
        int     bytes = snprintf(token, sizeof token, "<0x%02X>", byte);
        m->byte_id[byte] = m->byte_level ? bpe_model_find(m, &raw, 1)
            : bpe_model_find(m, (uint8_t *)token, bytes);
        all = all && m->byte_id[byte] >= 0;
        if (m->byte_id[byte] < 0 && m->byte_level)
            return fail(BAD_FILE,
                        "--tokenizer %s: no token for the byte %02X, so it could not spell every text",
                        m->name, byte);
    }
    bool spells = m->byte_level || m->unknown >= 0 || (m->byte_fallback && all);
    if (m->model == PIECE_MODEL_BPE && !spells) tell_left_out(m);
    return OK;
}

/* Adds what a token decodes to: U+2581 becomes a space and <0x0A> a byte, also in added tokens, as the
 * decoders of Hugging Face's library do. */
static Status marks_decoded_add(BpeTokenizer *m, int32_t id, const uint8_t *from, int64_t bytes)
{
    int64_t to = 0;
    int      byte = m->byte_fallback ? byte_of_name(from, bytes) : -1;
    uint8_t *decoded = malloc((size_t)bytes + 1);
    if (!decoded) return fail(NO_MEMORY, "no memory for --tokenizer %s", m->name);
    for (int64_t at = 0; at < bytes && byte < 0; to++) {
        bool mark = bytes - at >= 3 && !memcmp(from + at, "\xE2\x96\x81", 3);
        decoded[to] = mark ? ' ' : from[at];
        at += mark ? 3 : 1;
    }
    if (byte >= 0) decoded[to++] = (uint8_t)byte;
    Status status = vocab_add(&m->decoded, id, decoded, to);
    free(decoded);
    return status;
}

/* By the decoder, for each place in a text that matters. A byte-level tokenizer keeps tokens as bytes, and
 * the decoder knows them in letters. */
static Status chain_decoded_add(BpeTokenizer *m, int32_t id, const uint8_t *from, int64_t bytes, bool own)
{
    int        places = decode_chain_places(&m->chain);
    bool       letters = m->byte_level && !own;
    DecodeText text = { 0 };
    Status     status = OK;
    for (int place = 0; place < PIECE_PLACES && status == OK; place++) {
        if (place & ~places) continue;
        text.capacity = 2 * bytes + 1;
        free(text.text);
        if (!(text.text = malloc((size_t)text.capacity))) return fail(NO_MEMORY, "no memory to decode");
        text.bytes = letters ? (int64_t)letters_of_bytes((char *)text.text, from, bytes) : bytes;
        if (!letters) memcpy(text.text, from, (size_t)bytes);
        status = decode_chain_apply(&m->chain, &text, place);
        Vocab *to = place ? &m->decoded_at[place] : &m->decoded;
        if (status == OK) status = vocab_add(to, id, text.text, text.bytes);
    }
    free(text.text);
    return status;
}

static bool is_bytes_only(const BpeTokenizer *m)
{
    bool bytes = m->chain.steps == 1 && m->chain.step[0].kind == DECODE_BYTE_LEVEL;
    return m->byte_level && (!m->chain.steps || bytes);
}

static bool is_added(const BpeTokenizer *m, int32_t id) { return m->special && m->special[id]; }

/* own: the text is that of an added token, not of the model */
static Status decoded_add(BpeTokenizer *m, int32_t id, const uint8_t *from, int64_t bytes, bool own)
{
    if (is_bytes_only(m)) return vocab_add(&m->decoded, id, from, bytes);
    return m->chain.steps ? chain_decoded_add(m, id, from, bytes, own)
                          : marks_decoded_add(m, id, from, bytes);
}

/* Ids that the post-processor adds decode to nothing. An added token that the normalizer changes decodes to
 * its normalized text, because that is what it replaced. All others decode to their own text. */
static Status decoded_fill(BpeTokenizer *m)
{
    for (int i = 0; i < m->before.count + m->after.count; i++) {
        int32_t id = i < m->before.count ? m->before.id[i] : m->after.id[i - m->before.count];
        if (!vocab_has(&m->decoded, id)) TRY(vocab_add(&m->decoded, id, "", 0));
    }
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *t = &m->added.token[i];
        if (t->rewritten && !vocab_has(&m->decoded, t->id))
            TRY(decoded_add(m, t->id, t->text, t->bytes, true));
    }
    for (int32_t id = 0; id < m->vocab.ids; id++)
        if (vocab_has(&m->vocab, id) && !vocab_has(&m->decoded, id))
            TRY(decoded_add(m, id, vocab_bytes(&m->vocab, id), m->vocab.length[id], is_added(m, id)));
    return OK;
}

/* Whether tokens have marks (U+2581) only at their beginning. Then nothing merges across the beginning of a
 * run of marks, and splitting there changes no id, but makes words short enough for the cache. */
static bool marks_only_begin(const BpeTokenizer *m)
{
    if (vocab_find(&m->vocab, "\xE2\x96\x81", 3) < 0) return false;
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        const uint8_t *text = m->vocab.bytes + (vocab_has(&m->vocab, id) ? m->vocab.offset[id] : 0);
        bool other = false;
        for (int32_t at = 0; at < m->vocab.length[id]; at++) {
            bool mark = m->vocab.length[id] - at >= 3 && !memcmp(text + at, "\xE2\x96\x81", 3);
            if (mark && other && !(m->special && m->special[id])) return false;
            if (mark) at += 2;
            other |= !mark;
        }
    }
    return true;
}

/* The ASCII bytes that may precede the letters of a word in one pretoken: a space for GPT-2, for the others
 * anything except letters, numbers and line ends. What begins with ' may be a contraction, so it is left to
 * pretoken_next. */
static void word_prefixes_find(BpeTokenizer *m)
{
    PretokenKind kind = m->pretokenizer.steps ? m->pretokenizer.step[m->pretokenizer.steps - 1].scan
        : PRETOKEN_GPT2;
    m->word_prefix[' '] = 1;
    for (int c = 1; c < 128 && kind != PRETOKEN_GPT2; c++)
        m->word_prefix[c] = !(unicode_class((uint32_t)c) & (LETTER | NUMBER)) && c != '\n' && c != '\r'
                         && c != '\'';
}

/* Names of the end of document, by preference, where the files do not name it */
static const char *const eod_names[] = {
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot|>", "<|im_end|>"
};

/* Tokens that are searched for in normalized text are normalized themselves. */
static Status added_normalize(BpeTokenizer *m)
{
    NormalizerBuffers buffers = { 0 };
    Status status = OK;
    for (int i = 0; i < m->added.count && status == OK; i++) {
        AddedToken *token = &m->added.token[i];
        Chars text = { token->text, token->bytes, 0 };
        if (token->normalized) status = normalizer_apply(&m->normalizer, &text, &buffers);
        if (status != OK || text.text == token->text) continue;
        token->rewritten = text.bytes != token->bytes || memcmp(text.text, token->text, (size_t)text.bytes);
        if (token->rewritten) status = added_rewrite(token, text.text, text.bytes);
    }
    normalizer_buffers_close(&buffers);
    return status;
}

/* Of two tokens that the normalizer makes the same the library takes either, and an empty one cuts a text at
 * every character. */
static Status added_check(const BpeTokenizer *m)
{
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *t = &m->added.token[i], *next = t + 1;
        if (t->bytes == 0)
            return fail(BAD_FILE, "--tokenizer %s: nothing is left of the added token with id %d after the"
                        " normalizer; set its \"normalized\" to false", m->name, t->id);
        bool same = i + 1 < m->added.count && t->normalized && next->normalized && t->bytes == next->bytes &&
                    !memcmp(t->text, next->text, (size_t)t->bytes);
        if (same)
            return fail(BAD_FILE,
                        "--tokenizer %s: the added tokens with ids %d and %d are the same after the"
                        " normalizer, \"%.80s\"; set \"normalized\" of one to false",
                        m->name, t->id, next->id, (const char *)t->text);
    }
    return OK;
}

static Status tokenizer_finish(BpeTokenizer *m)
{
    if (m->vocabulary < m->vocab.ids) m->vocabulary = m->vocab.ids;
    if (m->vocabulary == 0) return fail(BAD_FILE, "--tokenizer %s: no tokens in it", m->name);
    if (m->merges.count && m->vocabulary > MERGES_IDS)
        return fail(BAD_FILE, "--tokenizer %s: %d tokens, and %d are the most that can merge", m->name,
                    m->vocabulary, MERGES_IDS);
    for (size_t i = 0; i < COUNT(eod_names) && m->eod < 0; i++)
        m->eod = vocab_find(&m->vocab, eod_names[i], (int64_t)strlen(eod_names[i]));
    TRY(bytes_find(m));
    TRY(added_normalize(m));
    TRY(decoded_fill(m));
    bool whole = m->prefix.bytes || m->suffix.bytes || m->ignore_merges || m->byte_level;
    if (m->model == PIECE_MODEL_BPE && !whole && !m->pretokenizer.steps && marks_only_begin(m))
        m->pretokenizer.step[m->pretokenizer.steps++] = (PretokenizerStep){ .kind = SPLIT_MARKS };
    word_prefixes_find(m);
    added_sort(&m->added);
    return added_check(m);
}

/* Added tokens are sorted when a tokenizer is made, so their order must not matter: hashes are added. Their
 * texts are tokens. */
static uint64_t added_hash(const AddedTokens *added)
{
    uint64_t sum = 0;
    for (int i = 0; i < added->count; i++) {
        const AddedToken *t = &added->token[i];
        int32_t record[] = { t->id, t->strip_left, t->strip_right, t->single, t->normalized, t->special };
        sum += tokenizer_hash(0, record, sizeof record);
    }
    return sum;
}

static TokenizerHashes bpe_hashes(const Tokenizer *t)
{
    const BpeTokenizer *m = t->state;
    int32_t  model[] = { m->byte_level, m->byte_fallback, m->fuse_unknown, m->ignore_merges, m->unknown };
    uint64_t tokens = 0, added = added_hash(&m->added);
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        if (!vocab_has(&m->vocab, id)) continue;
        tokens = tokenizer_hash(tokens, &id, sizeof id);
        tokens = tokenizer_hash(tokens, vocab_bytes(&m->vocab, id), m->vocab.length[id]);
    }
    for (int32_t rank = 0; rank < m->merges.capacity; rank++)
        if (m->merges.pair[rank] != UINT64_MAX)
            tokens = tokenizer_hash(tokens, &m->merges.pair[rank], sizeof m->merges.pair[rank]);
    for (int32_t id = 0; id < m->vocab.ids && m->trie.score; id++)
        tokens = tokenizer_hash(tokens, &m->trie.score[id], sizeof m->trie.score[id]);
    uint64_t rules = tokenizer_hash(m->rules, model, sizeof model);
    /* what the first version did not have leaves its hashes as they were */
    int64_t more[] = { m->model, m->max_characters, m->prefix.bytes, m->suffix.bytes };
    if (m->model != PIECE_MODEL_BPE || m->prefix.bytes || m->suffix.bytes) {
        rules = tokenizer_hash(rules, more, sizeof more);
        rules = tokenizer_hash(rules, m->prefix.text, m->prefix.bytes);
        rules = tokenizer_hash(rules, m->suffix.text, m->suffix.bytes);
    }
    return (TokenizerHashes){ tokens, tokenizer_hash(rules, &added, sizeof added) };
}

const BpeTokenizer *bpe_tokenizer_of(const Tokenizer *t)
{
    return t->encode == bpe_tokenizer_encode ? t->state : NULL;
}

/* A bound of the ids for each byte of a text; where it is too large to be of use, a text's ids are counted.
 */
static void growth_find(Tokenizer *t, const BpeTokenizer *m)
{
    const int64_t most = 64;
    int64_t ratio, extra, segment, before;
    normalizer_growth(&m->normalizer, &ratio, &extra);
    normalizer_growth(&m->segment_normalizer, &segment, &before);
    if (m->added.count) ratio *= (1 + extra) * (1 + before);   /* each segment may get a prefix */
    for (int i = 0; i < m->pretokenizer.steps; i++)
        if (m->pretokenizer.step[i].kind == CHANGE_PIECE) ratio *= most;
    t->extra_ids    = extra * segment + before + m->before.count + m->after.count;
    t->ids_per_byte = ratio * segment;
    if (t->ids_per_byte > most) t->max_ids = bpe_tokenizer_count;
}

/* Whether a text, or what is put around it, may have the id. */
static bool may_occur(const BpeTokenizer *m, int32_t id)
{
    if (id == m->eod || is_template_id(m, id)) return true;
    for (int i = 0; i < m->added.count; i++)
        if (m->added.token[i].id == id) return !m->added.token[i].special || !is_added(m, id);
    return vocab_has(&m->vocab, id);
}

Status bpe_tokenizer_limit(Tokenizer *t, int32_t ids)
{
    BpeTokenizer *m = t->state;
    for (int32_t id = ids; id < m->vocab.ids; id++)
        if (may_occur(m, id))
            return fail(BAD_OPTION, "--tokenizer %s has %d ids, and the model has %d: its token %.*s with id"
                        " %d may be in a text; give the tokenizer it was trained with", t->name,
                        t->vocabulary, ids, (int)(m->vocab.length[id] < 80 ? m->vocab.length[id] : 80),
                        (const char *)vocab_bytes(&m->vocab, id), id);
    added_limit(&m->added, ids);
    if (m->vocab.ids > ids) m->vocab.ids = ids;
    t->vocabulary = m->vocabulary = ids;
    t->specials   = m->added.specials > 0;
    return OK;
}

static void tokenizer_close_bpe(Tokenizer *t) { bpe_tokenizer_close(t->state); }

Status bpe_tokenizer_make(Tokenizer *t, BpeTokenizer *m)
{
    Status status = tokenizer_finish(m);
    if (status != OK) {
        bpe_tokenizer_close(m);
        return status;
    }
    bool places = decode_chain_places(&m->chain) && !is_bytes_only(m);
    *t = (Tokenizer){ .name = m->name, .vocabulary = m->vocabulary, .eod = m->eod,
                      .encode = bpe_tokenizer_encode, .decode = bpe_tokenizer_decode,
                      .decode_at = places ? bpe_tokenizer_decode_at : NULL,
                      .decodes_last = places && decode_chain_places(&m->chain) & PIECE_LAST,
                      .close = tokenizer_close_bpe, .state = m,
                      .hashes = bpe_hashes, .specials = m->added.specials > 0 };
    growth_find(t, m);
    return OK;
}
