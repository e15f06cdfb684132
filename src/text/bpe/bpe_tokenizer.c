/* From the description of a BPE tokenizer, as the readers fill it, to a Tokenizer: checks that every text can
 * be encoded, and computes what encoding and decoding look up. */
#include "text/bpe/bpe_tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
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
    merges_close(&m->merges);
    added_close(&m->added);
    pretokenizer_close(&m->pretokenizer);
    free(m->special);
    free(m);
}

Status bpe_add_token(BpeTokenizer *m, AddedToken token)
{
    if (token.id < 0 || token.id >= VOCAB_IDS_MAX)
        return fail(BAD_FILE, "an added token with id %d", token.id);
    if (!m->special && !(m->special = calloc(VOCAB_IDS_MAX, 1)))
        return fail(NO_MEMORY, "no memory for special tokens");
    if (!vocab_has(&m->vocab, token.id)) {
        TRY(vocab_add(&m->vocab, token.id, token.text, token.bytes));
        m->special[token.id] = 1;
    }
    return added_add(&m->added, token);
}

Status bpe_add_merge(BpeTokenizer *m, const uint8_t *left, int64_t left_bytes, const uint8_t *right,
                     int64_t right_bytes,
                       uint32_t rank)
{
    uint8_t joined[1024];
    if (left_bytes + right_bytes > (int64_t)sizeof joined)
        return fail(BAD_FILE, "merge %" PRIu32 " makes more than %zu bytes", rank, sizeof joined);
    memcpy(joined, left, (size_t)left_bytes);
    memcpy(joined + left_bytes, right, (size_t)right_bytes);
    int32_t a = vocab_find(&m->vocab, left, left_bytes), b = vocab_find(&m->vocab, right, right_bytes);
    int32_t made = vocab_find(&m->vocab, joined, left_bytes + right_bytes);
    if (a < 0 || b < 0 || made < 0)
        return fail(BAD_FILE, "merge %" PRIu32 ", %.*s %.*s: %s is no token of the vocabulary", rank,
                    (int)left_bytes, left, (int)right_bytes, right,
                    made < 0 && a >= 0 && b >= 0 ? "what they make" : "one of them");
    return merges_add(&m->merges, a, b, rank, made);
}

static TextPiece bpe_tokenizer_decode(const Tokenizer *t, int32_t id)
{
    const BpeTokenizer *m = t->state;
    if (id == m->eod || !vocab_has(&m->decoded, id)) return (TextPiece){ .text = "" };
    const char *text = (const char *)vocab_bytes(&m->decoded, id);
    bool prefix = m->prepends_mark && m->decoded.length[id] && *text == ' '
               && (m->strip_first_space || *vocab_bytes(&m->vocab, id) == 0xE2);
    return (TextPiece){ text, m->decoded.length[id], prefix };
}

/* ---- from a description to a tokenizer ---- */

/* Finds the ids of single bytes, which are tokens of one byte, or <0x00> to <0xFF>. BAD_FILE where one is
 * missing that some text needs. */
static Status bytes_find(BpeTokenizer *m)
{
    for (int byte = 0; byte < 256; byte++) {
        char    token[8];
        uint8_t raw = (uint8_t)byte;
        int     bytes = snprintf(token, sizeof token, "<0x%02X>", byte);
        m->byte_id[byte] = m->byte_level ? bpe_model_find(m, &raw, 1)
            : bpe_model_find(m, (uint8_t *)token, bytes);
        if (m->byte_id[byte] < 0 && (m->byte_level || m->byte_fallback || m->unknown < 0))
            return fail(BAD_FILE,
                        "--tokenizer %s: no token for the byte %02X, so it could not spell every text",
                        m->name, byte);
    }
    return OK;
}

/* Adds what a token decodes to: U+2581 becomes a space and <0x0A> a byte, also in added tokens, as the
 * decoders of Hugging Face's library do. */
static Status decoded_add(BpeTokenizer *m, int32_t id, const uint8_t *from, int64_t bytes)
{
    int64_t to = 0;
    if (m->byte_level) return vocab_add(&m->decoded, id, from, bytes);
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

/* Ids that the post-processor adds decode to nothing. An added token that is searched for after the
 * normalizer decodes to its normalized text, because that is what it replaced. All others decode to their own
 * text. */
static Status decoded_fill(BpeTokenizer *m)
{
    for (int i = 0; i < m->before.count + m->after.count; i++) {
        int32_t id = i < m->before.count ? m->before.id[i] : m->after.id[i - m->before.count];
        if (!vocab_has(&m->decoded, id)) TRY(vocab_add(&m->decoded, id, "", 0));
    }
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *t = &m->added.token[i];
        if (t->normalized && !vocab_has(&m->decoded, t->id)) TRY(decoded_add(m, t->id, t->text, t->bytes));
    }
    for (int32_t id = 0; id < m->vocab.ids; id++)
        if (vocab_has(&m->vocab, id) && !vocab_has(&m->decoded, id))
            TRY(decoded_add(m, id, vocab_bytes(&m->vocab, id), m->vocab.length[id]));
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
        Chars text = { token->text, token->bytes };
        if (token->normalized) status = normalizer_apply(&m->normalizer, &text, true, &buffers);
        if (status == OK && text.text != token->text) status = added_rewrite(token, text.text, text.bytes);
    }
    normalizer_buffers_close(&buffers);
    return status;
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
    if (!m->byte_level && !m->pretokenizer.steps && marks_only_begin(m))
        m->pretokenizer.step[m->pretokenizer.steps++] = (PretokenizerStep){ .kind = SPLIT_MARKS };
    word_prefixes_find(m);
    added_sort(&m->added);
    return OK;
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
    uint64_t rules = tokenizer_hash(m->rules, model, sizeof model);
    return (TokenizerHashes){ tokens, tokenizer_hash(rules, &added, sizeof added) };
}

const BpeTokenizer *bpe_tokenizer_of(const Tokenizer *t)
{
    return t->encode == bpe_tokenizer_encode ? t->state : NULL;
}

static void tokenizer_close_bpe(Tokenizer *t) { bpe_tokenizer_close(t->state); }

Status bpe_tokenizer_make(Tokenizer *t, BpeTokenizer *m)
{
    Status status = tokenizer_finish(m);
    if (status != OK) {
        bpe_tokenizer_close(m);
        return status;
    }
    int64_t ratio, extra, segment_normalizer, before;
    normalizer_growth(&m->normalizer, &ratio, &extra);
    normalizer_growth(&m->segment_normalizer, &segment_normalizer, &before);
    if (m->added.count) ratio *= (1 + extra) * (1 + before);   /* each segment may get a prefix */
    *t = (Tokenizer){ .name = m->name, .vocabulary = m->vocabulary, .eod = m->eod,
                      .encode = bpe_tokenizer_encode, .decode = bpe_tokenizer_decode,
                      .close = tokenizer_close_bpe, .state = m,
                      .hashes = bpe_hashes,
                      .extra_ids = extra * segment_normalizer + before + m->before.count + m->after.count,
                      .ids_per_byte = ratio * segment_normalizer, .specials = m->added.specials > 0 };
    return OK;
}
