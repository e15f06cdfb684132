/* A byte-level BPE in a GGUF file: tokens and merges in letters of bytes, and the name by which llama.cpp
 * knows how a text is split before merges. */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "convert/gguf/gguf_internal.h"
#include "convert/tokenizer/tokenizer_json.h"

/* ---- the split before merges ---- */

/* pattern: the expression of a SPLIT_REGEX step */
typedef struct { PretokenizerStepKind kind; PretokenKind scan; const char *pattern; } SplitStep;
enum { SPLIT_STEPS_MOST = 6 };
#define SCAN(of) { SPLIT_SCAN, PRETOKEN_##of, NULL }
#define REGEX(of) { SPLIT_REGEX, PRETOKEN_KINDS, of }
#define DIGIT { SPLIT_DIGIT, PRETOKEN_KINDS, NULL }
/* Expressions of DeepSeek: letters that have case, punctuation of Latin and of Chinese texts, and characters
 * of Chinese with those of Korean or Japanese. */
#define CASED \
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF" \
    "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5" \
    "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-" \
    "\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D" \
    "\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-" \
    "\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113" \
    "\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149" \
    "\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B" \
    "\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-" \
    "\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2" \
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+"
#define PUNCTUATION "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"
#define HAN_HANGUL "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
#define HAN_KANA "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"

#define CASES "letters outside of ASCII where their case changes within a word, and combining marks"
/* llama.cpp's names. whole: a piece that is a token is taken without merges. other: what llama.cpp splits
 * otherwise; NULL: nothing. */
static const struct {
    const char *name; bool whole; int steps; SplitStep step[SPLIT_STEPS_MOST]; const char *other;
} splits[] = {
    { "gpt-2",     false, 1, { SCAN(GPT2) }, NULL },
    { "smollm",    false, 2, { DIGIT, SCAN(GPT2) }, NULL },
    { "llama-bpe", true,  1, { SCAN(LLAMA3) }, NULL },
    { "dbrx",      false, 1, { SCAN(LLAMA3) }, NULL },
    { "qwen2",     false, 1, { SCAN(QWEN2) }, NULL },
    { "bloom",     false, 1, { SCAN(BLOOM) }, NULL },
    { "deepseek-llm", false, 6, { REGEX("[\r\n]"), REGEX(CASED), REGEX(PUNCTUATION), REGEX("\\s+$"),
                                  REGEX(HAN_HANGUL), DIGIT }, NULL },
    { "deepseek-coder", false, 5, { REGEX("[\r\n]"), REGEX("\\s?\\p{L}+"), REGEX("\\s?\\p{P}+"),
                                    REGEX(HAN_HANGUL), DIGIT }, NULL },
    { "deepseek-v3", false, 3, { SCAN(NUMBERS), REGEX(HAN_KANA), SCAN(DEEPSEEK) }, NULL },
    { "tekken",    true,  1, { SCAN(TEKKEN) }, CASES },
    { "gpt-4o",    false, 1, { SCAN(O200K) }, CASES },
    { "dbrx",      false, 1, { SCAN(CL100K) }, "white space with line breaks at the end of a text" },
};
enum { SPLIT_ROWS = COUNT(splits) };

static bool step_is(const PretokenizerStep *s, const SplitStep *known)
{
    if (s->kind != known->kind) return false;
    if (s->kind == SPLIT_SCAN) return s->scan == known->scan;
    if (s->kind != SPLIT_REGEX) return true;
    return s->behavior == SPLIT_ISOLATED && !s->invert && s->pattern.regex &&
           !strcmp(regex_pattern(s->pattern.regex), known->pattern);
}

static bool split_is(const Pretokenizer *p, int which)
{
    bool same = p->steps == splits[which].steps;
    for (int i = 0; i < p->steps && same; i++) same = step_is(&p->step[i], &splits[which].step[i]);
    return same;
}

/* Whether merges alone make each token of its bytes: then it is the same whether a piece that is a token is
 * taken whole. */
static Status merges_make_tokens(bool *all, const BpeTokenizer *m)
{
    enum { BYTES_MOST = 1024 };
    BpeSpace space = { 0 };
    int32_t  ids[BYTES_MOST];
    int64_t  count = 1;
    *all = true;
    for (int32_t id = 0; id < m->vocab.ids && *all && count >= 0; id++) {
        if (!vocab_has(&m->vocab, id) || (m->special && m->special[id])) continue;
        int32_t bytes = m->vocab.length[id];
        *all = bytes <= BYTES_MOST;
        for (int32_t i = 0; i < bytes && *all; i++) ids[i] = m->byte_id[vocab_bytes(&m->vocab, id)[i]];
        count = *all ? bpe_merge(&m->merges, ids, bytes, &space) : 1;
        *all  = *all && count == 1 && ids[0] == id;
    }
    bpe_space_close(&space);
    return count < 0 ? fail(NO_MEMORY, "no memory to merge tokens") : OK;
}

/* *which: the row of `splits` */
static Status split_find(int *which, const BpeTokenizer *m)
{
    bool all = false, asked = false;
    for (*which = 0; *which < SPLIT_ROWS; ++*which)
        if (split_is(&m->pretokenizer, *which) && splits[*which].whole == m->ignore_merges) return OK;
    for (*which = 0; *which < SPLIT_ROWS; ++*which) {
        if (!split_is(&m->pretokenizer, *which)) continue;
        if (!asked) TRY(merges_make_tokens(&all, m));
        asked = true;
        if (all) return OK;
    }
    if (asked)
        return fail(BAD_OPTION,
                    "--to gguf: the tokenizer %s %s, and llama.cpp does not with its pre-tokenizer; --to hf "
                    "writes it for transformers",
                    m->name,
                    m->ignore_merges ? "takes a piece that is a token without merges (ignore_merges)"
                                     : "merges each piece, also one that is a token");
    return fail(BAD_OPTION,
                "--to gguf: the pre-tokenizer of %s is not one that is known by a name of llama.cpp; those "
                "of GPT-2, GPT-4, Llama 3, Qwen, OLMo 2, SmolLM, DeepSeek, BLOOM and Mistral (Tekken) are; "
                "--to hf writes it for transformers",
                m->name);
}

/* ---- tokens and merges ---- */

/* Added tokens are written as they are, the others in letters. */
static void tokens_fill(GgufTokens *tokens, const BpeTokenizer *m)
{
    gguf_added_kinds(tokens, m);
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        GgufToken *token = &tokens->token[id];
        if (!vocab_has(&m->vocab, id)) continue;
        const uint8_t *bytes = vocab_bytes(&m->vocab, id);
        bool normal = token->kind == GGUF_TOKEN_NORMAL;
        token->text  = normal ? tokens->space + tokens->used : (const char *)bytes;
        token->bytes = normal ? letters_of_bytes(tokens->space + tokens->used, bytes, m->vocab.length[id])
                              : (size_t)m->vocab.length[id];
        if (normal) tokens->used += token->bytes;
    }
}

static void merges_put(GgufText *out, const BpeTokenizer *m)
{
    char text[MERGE_LETTERS];
    gguf_key_array(out, "tokenizer.ggml.merges", GGUF_STRING, m->merges.count);
    for (int32_t rank = 0; rank < m->merges.capacity; rank++) {
        size_t letters = merge_letters(text, m, rank);
        if (letters) gguf_put_string(out, text, letters);
    }
}

/* ---- all of it ---- */

/* What llama.cpp does to no text before it is split. */
static Status normalizer_check(const BpeTokenizer *m)
{
    bool forms = m->normalizer.steps == 1 && m->normalizer.step[0].kind == NORMALIZER_NFC;
    if ((m->normalizer.steps && !forms) || m->segment_normalizer.steps)
        return fail(BAD_OPTION,
                    "--to gguf: the tokenizer %s %s, and llama.cpp does not; --to hf writes it for "
                    "transformers",
                    m->name, m->segment_normalizer.steps ? "puts a blank before a text (add_prefix_space)"
                                                         : "has another normalizer than NFC");
    if (forms)
        log_line("convert: the tokenizer %s brings a text into the Unicode form NFC, and llama.cpp does not: "
                 "there a text in another form gets other ids", m->name);
    return OK;
}

Status gguf_bpe_put(GgufText *out, const BpeTokenizer *m, int64_t vocabulary)
{
    GgufTokens tokens;
    int        split;
    TRY(normalizer_check(m));
    TRY(split_find(&split, m));
    if (splits[split].other)
        log_line("convert: llama.cpp splits %s otherwise than the tokenizer %s: there such texts get other "
                 "ids", splits[split].other, m->name);
    TRY(gguf_tokens_open(&tokens, vocabulary, 2 * (size_t)m->vocab.used));
    tokens_fill(&tokens, m);
    gguf_key_string(out, "tokenizer.ggml.model", "gpt2");
    gguf_key_string(out, "tokenizer.ggml.pre", splits[split].name);
    gguf_tokens_put(out, &tokens, false);
    merges_put(out, m);
    gguf_tokens_close(&tokens);
    return OK;
}
