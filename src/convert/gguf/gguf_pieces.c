/* Vocabularies of pieces with scores in a GGUF file: a sentencepiece model, or a BPE of characters from a
 * tokenizer.json, whose merges become scores. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "convert/gguf/gguf_internal.h"
#include "convert/tokenizer/tokenizer_json.h"

static const char  MARK[] = "\xE2\x96\x81";                         /* U+2581, a blank in pieces */
enum { MARK_BYTES = 3 };
static const float LOWEST = -1e9F;                         /* the score of what merges do not make */

/* ---- a BPE of a tokenizer.json ---- */

/* llama.cpp joins the neighbours whose joined token has the highest score. Merges are the same if those of a
 * token follow each other in rank, so that the order of tokens is the order of merges. */
static bool scores_fill(GgufTokens *tokens, const BpeTokenizer *m)
{
    int32_t last = VOCAB_NONE, order = 0;
    for (int64_t id = 0; id < tokens->count; id++) tokens->token[id].score = LOWEST;
    for (int32_t rank = 0; rank < m->merges.capacity; rank++) {
        if (m->merges.pair[rank] == UINT64_MAX) continue;
        int32_t made = m->merges.result[rank];
        if (made != last && tokens->token[made].score > LOWEST) return false;
        if (made != last) tokens->token[made].score = -(float)order++;
        last = made;
    }
    return true;
}

/* Whether any two tokens that make the token when joined are a merge, because llama.cpp would join them. */
static bool token_merges_complete(const BpeTokenizer *m, const GgufTokens *tokens, int32_t id)
{
    const uint8_t *text = vocab_bytes(&m->vocab, id);
    int32_t bytes = m->vocab.length[id];
    for (int32_t cut = 1; cut < bytes; cut++) {
        if ((text[cut] & 0xC0) == 0x80) continue;                           /* within a character */
        int32_t left = bpe_model_find(m, text, cut), right = bpe_model_find(m, text + cut, bytes - cut);
        if (left < 0 || right < 0) continue;
        bool texts = tokens->token[left].kind != GGUF_TOKEN_CONTROL &&
                     tokens->token[right].kind != GGUF_TOKEN_CONTROL;
        if (texts && merges_rank(&m->merges, left, right) == NO_RANK) return false;
    }
    return true;
}

static bool is_blank_mark(const uint8_t *text, int bytes, const char *mark, int mark_bytes)
{
    return bytes == mark_bytes && !memcmp(text, mark, (size_t)mark_bytes);
}

/* What happens to blanks: each becomes a mark, after a mark is put before the text (*prefix) or not. *first:
 * only before the first text, and only where it does not begin with one. NULL: nothing else, or what else. */
static const char *blanks_rule(const BpeTokenizer *m, bool *prefix, bool *first)
{
    bool marked = false;
    *prefix = *first = false;
    for (int i = 0; i < m->normalizer.steps + m->segment_normalizer.steps; i++) {
        const NormalizerStep *s = i < m->normalizer.steps
                                      ? &m->normalizer.step[i]
                                      : &m->segment_normalizer.step[i - m->normalizer.steps];
        bool mark = is_blank_mark(s->new, s->new_bytes, MARK, MARK_BYTES);
        bool prepends = s->kind == NORMALIZER_PREPEND || s->kind == NORMALIZER_PREPEND_FIRST ||
                        s->kind == NORMALIZER_PREPEND_UNLESS;
        if (!mark || (prepends ? *prefix : s->kind != NORMALIZER_REPLACE || marked)) return "its normalizer";
        if (prepends) *prefix = true, *first = s->kind != NORMALIZER_PREPEND;
        else if (!is_blank_mark(s->old, s->old_bytes, " ", 1)) return "its normalizer";
        else marked = true;
    }
    return marked ? NULL : "its treatment of blanks";
}

/* A split at blanks, of which the normalizer leaves none, or at marks where no token has one within. */
static bool split_is_none(const Pretokenizer *p)
{
    const PretokenizerStep *s = &p->step[0];
    if (p->steps != 1) return p->steps == 0;
    return s->kind == SPLIT_MARKS ||
           (s->kind == SPLIT_REGEX && !s->invert && s->behavior != SPLIT_REMOVED &&
            !strcmp(s->pattern.regex ? regex_pattern(s->pattern.regex) : s->pattern.text, " "));
}

static const char *other_rule(const BpeTokenizer *m, const GgufTokens *tokens, bool *prefix, bool *first)
{
    const char *why = blanks_rule(m, prefix, first);
    if (why) return why;
    if (!m->byte_fallback) return "its treatment of characters that are no token, which do not become bytes";
    if (m->ignore_merges)  return "that it takes a piece that is a token without merges (ignore_merges)";
    if (!split_is_none(&m->pretokenizer)) return "its pre-tokenizer";
    for (int32_t id = 0; id < m->vocab.ids; id++)
        if (vocab_has(&m->vocab, id) && tokens->token[id].kind == GGUF_TOKEN_NORMAL &&
            !token_merges_complete(m, tokens, id))
            return "its merges, which are not all that its tokens allow";
    return NULL;
}

/* A token with a mark that a person defined is found in texts with marks of their own alone; llama.cpp would
 * search it in all texts before it makes marks, where merges make it. */
static void tokens_fill(GgufTokens *tokens, const BpeTokenizer *m)
{
    gguf_added_kinds(tokens, m);
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        GgufToken *token = &tokens->token[id];
        if (!vocab_has(&m->vocab, id)) continue;
        token->text  = (const char *)vocab_bytes(&m->vocab, id);
        token->bytes = (size_t)m->vocab.length[id];
        int byte = byte_of_name(token->text, (int64_t)token->bytes);
        if (byte >= 0 && m->byte_id[byte] == id) token->kind = GGUF_TOKEN_BYTE;
        if (token->kind == GGUF_TOKEN_DEFINED && memmem(token->text, token->bytes, MARK, MARK_BYTES))
            token->kind = GGUF_TOKEN_NORMAL;
    }
}

Status gguf_llama_put(GgufText *out, const BpeTokenizer *m, int64_t vocabulary)
{
    GgufTokens tokens;
    bool       prefix, first;
    TRY(gguf_tokens_open(&tokens, vocabulary, 0));
    tokens_fill(&tokens, m);
    const char *why = scores_fill(&tokens, m) ? other_rule(m, &tokens, &prefix, &first)
                                              : "its merges, whose order is not an order of tokens";
    if (!why) {
        gguf_key_string(out, "tokenizer.ggml.model", "llama");
        gguf_key_string(out, "tokenizer.ggml.pre", "default");
        gguf_tokens_put(out, &tokens, true);
        gguf_key_bool(out, "tokenizer.ggml.add_space_prefix", prefix);
    }
    gguf_tokens_close(&tokens);
    if (why)
        return fail(BAD_OPTION,
                    "--to gguf: llama.cpp cannot do what the tokenizer %s does: %s; --to hf writes it for "
                    "transformers",
                    m->name, why);
    if (first)
        log_line("convert: llama.cpp puts a blank before each text, the tokenizer %s only before the first, "
                 "and not where it begins with one: such texts get other ids there", m->name);
    return OK;
}

/* ---- sentencepiece models ---- */

/* Pieces with their marks for blanks, scores, and kinds, whose numbers are the same. What a person defined is
 * searched in a text before its blanks become marks. */
static Status pieces_put(GgufText *out, const SentencePieceModel *m, int64_t vocabulary)
{
    GgufTokens tokens;
    size_t     bytes = 0;
    for (int32_t id = 0; id < m->pieces; id++) bytes += m->piece[id].text.bytes;
    TRY(gguf_tokens_open(&tokens, vocabulary, bytes));
    for (int32_t id = 0; id < m->pieces; id++) {
        const SentencePieceEntry *p = &m->piece[id];
        GgufToken *token = &tokens.token[id];
        *token = (GgufToken){ p->text.data, p->text.bytes, p->score, (GgufTokenKind)p->kind };
        if (p->kind != SP_PIECE_USER) continue;
        token->text = tokens.space + tokens.used;
        for (size_t i = 0; i < p->text.bytes; ) {
            bool mark = p->text.bytes - i >= MARK_BYTES && !memcmp(p->text.data + i, MARK, MARK_BYTES);
            tokens.space[tokens.used++] = mark ? ' ' : p->text.data[i];
            i += mark ? MARK_BYTES : 1;
        }
        token->bytes = (size_t)(tokens.space + tokens.used - token->text);
    }
    gguf_tokens_put(out, &tokens, true);
    gguf_tokens_close(&tokens);
    return OK;
}

/* What llama.cpp's reader of unigram models has no rule for; NULL: nothing. */
static const char *unigram_other(const SentencePieceModel *m)
{
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (m->byte_fallback) return "it has tokens for bytes";
    if (!m->drop_spaces)  return "it keeps a text of blanks alone";
    return NULL;
}

/* A unigram model, with the table of its normalizer, as llama.cpp has them for T5. */
static Status unigram_put(GgufText *out, const SentencePieceModel *m, int64_t vocabulary)
{
    gguf_key_string(out, "tokenizer.ggml.model", "t5");
    gguf_key_string(out, "tokenizer.ggml.pre", "default");
    TRY(pieces_put(out, m, vocabulary));
    gguf_key_bool(out, "tokenizer.ggml.add_space_prefix", m->dummy_prefix);
    gguf_key_bool(out, "tokenizer.ggml.remove_extra_whitespaces", true);
    if (!m->charsmap.bytes) return OK;
    gguf_key_array(out, "tokenizer.ggml.precompiled_charsmap", GGUF_UINT8, (int64_t)m->charsmap.bytes);
    buffer_add_or_stop(&out->text, m->charsmap.data, (int64_t)m->charsmap.bytes);
    return OK;
}

/* What llama.cpp's "llama" does not do; NULL: nothing. */
static const char *bpe_other(const SentencePieceModel *m)
{
    SentencePieceModel prefixed = *m;
    prefixed.dummy_prefix = true;                                    /* which the file says */
    const char *why = llama_pieces_other(&prefixed);
    for (int32_t i = 0; i < m->pieces && !why; i++)
        if (m->piece[i].kind == SP_PIECE_UNUSED) why = "it has pieces that are not used";
    return why;
}

static Status bpe_pieces_put(GgufText *out, const SentencePieceModel *m, const char *name,
                             int64_t vocabulary)
{
    bool user = false;
    gguf_key_string(out, "tokenizer.ggml.model", "llama");
    gguf_key_string(out, "tokenizer.ggml.pre", "default");
    TRY(pieces_put(out, m, vocabulary));
    gguf_key_bool(out, "tokenizer.ggml.add_space_prefix", m->dummy_prefix);
    for (int32_t i = 0; i < m->pieces; i++) user |= m->piece[i].kind == SP_PIECE_USER;
    if (user && m->dummy_prefix)
        log_line("convert: the tokenizer %s has pieces that users defined: after one of them llama.cpp puts "
                 "a blank that is not in the text", name);
    return OK;
}

Status gguf_sentencepiece_put(GgufText *out, const SentencePieceModel *m, const char *name,
                              int64_t vocabulary)
{
    bool        unigram = m->kind == SP_MODEL_UNIGRAM;
    const char *why = unigram ? unigram_other(m) : bpe_other(m);
    if (why)
        return fail(BAD_OPTION, "--to gguf: llama.cpp cannot do what the tokenizer %s does: %s; %s", name,
                    why, sentencepiece_json_other(m) ? "train or give one without it"
                                                     : "--to hf writes it for transformers");
    return unigram ? unigram_put(out, m, vocabulary) : bpe_pieces_put(out, m, name, vocabulary);
}
