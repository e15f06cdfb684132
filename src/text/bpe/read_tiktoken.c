/* Reads a .tiktoken file: a line for each token, with its bytes in base64, a space and its rank, which is
 * also its id. Merges are implied: two tokens merge where their concatenation is a token. The file has
 * neither the pretokenizer nor the special tokens; tables here have those of the published files. The merges
 * of a token of n <= 1024 bytes are found in O(n log n). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/bpe/read_internal.h"

/* The published families, by the number of tokens in the file. eod and vocabulary include special tokens. */
static const struct { const char *name; int32_t tokens, eod, vocabulary; PretokenKind kind; } families[] = {
    { "r50k",    50256,  50256,  50257, PRETOKEN_GPT2 },
    { "gpt2",    50256,  50256,  50257, PRETOKEN_GPT2 },
    { "p50k",    50281,  50256,  50281, PRETOKEN_GPT2 },       /* the eod's id is within the file's range */
    { "cl100k", 100256, 100257, 100277, PRETOKEN_CL100K },
    { "llama3", 128000, 128001, 128256, PRETOKEN_LLAMA3 },
    { "qwen",   151643, 151643, 151851, PRETOKEN_QWEN2 },
    { "o200k",  199998, 199999, 200019, PRETOKEN_O200K },
};
enum { FAMILIES = COUNT(families) };

/* The special tokens of the families, by the number of tokens; reserved ids are not among them. */
static const struct { int32_t tokens, id; const char *text; } specials[] = {
    {  50256,  50256, "<|endoftext|>" },      {  50281,  50256, "<|endoftext|>" },
    { 100256, 100257, "<|endoftext|>" },      { 100256, 100258, "<|fim_prefix|>" },       { 100256, 100259, "<|fim_middle|>" },
    { 100256, 100260, "<|fim_suffix|>" },     { 100256, 100276, "<|endofprompt|>" },
    { 128000, 128000, "<|begin_of_text|>" },  { 128000, 128001, "<|end_of_text|>" },      { 128000, 128006, "<|start_header_id|>" },
    { 128000, 128007, "<|end_header_id|>" },  { 128000, 128009, "<|eot_id|>" },
    { 151643, 151643, "<|endoftext|>" },      { 151643, 151644, "<|im_start|>" },         { 151643, 151645, "<|im_end|>" },
    { 199998, 199999, "<|endoftext|>" },      { 199998, 200018, "<|endofprompt|>" },
};

/* Finds the family by the number of tokens, else by the beginning of the file's name; then the end of
 * document is the first id after the file's. */
static Status family_find(BpeTokenizer *m, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int which = -1;
    for (int i = 0; i < FAMILIES && which < 0; i++)
        if (families[i].tokens == m->vocab.ids) which = i;
    bool published = which >= 0;
    for (int i = 0; i < FAMILIES && which < 0; i++)
        if (!strncmp(name, families[i].name, strlen(families[i].name))) which = i;
    if (which < 0)
        return fail(BAD_FILE,
                    "%s: %d tokens are none of the published sizes, and a .tiktoken file does not say how"
                    " text is split; give it a name that begins with gpt2, cl100k, llama3, qwen or o200k",
                    path, m->vocab.ids);
    m->pretokenizer.step[m->pretokenizer.steps++] =
        (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = families[which].kind };
    m->rules      = tokenizer_hash(0, families[which].name, (int64_t)strlen(families[which].name));
    m->eod        = published ? families[which].eod : m->vocab.ids;
    m->vocabulary = published ? families[which].vocabulary : m->vocab.ids + 1;
    return OK;
}

static Status special_add(BpeTokenizer *m, int32_t id, const char *text)
{
    return bpe_add_token(m, (AddedToken){ .text = (uint8_t *)(uintptr_t)text, .bytes = (int64_t)strlen(text),
                                            .id = id, .special = true });
}

static Status specials_add(BpeTokenizer *m)
{
    int32_t tokens = m->vocab.ids;
    if (m->vocabulary == tokens + 1 && m->eod == tokens) return special_add(m, m->eod, "<|endoftext|>");
    for (size_t i = 0; i < COUNT(specials); i++)
        if (specials[i].tokens == tokens) TRY(special_add(m, specials[i].id, specials[i].text));
    return OK;
}

static int digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int64_t base64_decode(uint8_t *out, int64_t capacity, const uint8_t *in, int64_t count)
{
    uint32_t bits = 0;
    int      held = 0;
    int64_t  wrote = 0;
    while (count && in[count - 1] == '=') count--;
    for (int64_t i = 0; i < count; i++) {
        int digit = digit_of(in[i]);
        if (digit < 0 || wrote >= capacity) return -1;
        bits  = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[wrote++] = (uint8_t)(bits >> held);
    }
    return wrote;
}

static Status token_line(BpeTokenizer *m, const char *line, int64_t count, uint32_t any)
{
    (void)any;
    uint8_t token[1024];
    char    number[16] = "", *end;
    const char *blank = memchr(line, ' ', (size_t)count);
    int64_t left = blank ? line + count - blank - 1 : 0;
    if (left < 1 || left >= (int64_t)sizeof number)
        return fail(BAD_FILE, "it is not base64, a space and a number");
    memcpy(number, blank + 1, (size_t)left);
    long    rank  = strtol(number, &end, 10);
    int64_t bytes = base64_decode(token, sizeof token, (const uint8_t *)line, blank - line);
    if (bytes < 1 || *end || number[0] < '0' || number[0] > '9')
        return fail(BAD_FILE, "it is not base64 of 1 to %zu bytes, a space and a number", sizeof token);
    return vocab_add(&m->vocab, rank, token, bytes);
}

/* The merge that makes a token joins the two parts that remain after merging its bytes by all tokens of
 * lower rank. Where other than two parts remain, no merge makes the token, and it occurs only as a whole
 * pretoken. */
static Status merges_imply(BpeTokenizer *m)
{
    int32_t  ids[1024];
    BpeSpace space = { 0 };
    Status   status = OK;
    for (int32_t id = 0; id < m->vocab.ids && status == OK; id++) {
        int64_t bytes = m->vocab.length[id];
        if (!vocab_has(&m->vocab, id) || bytes < 2) continue;
        bool spelled = true;                    /* a missing byte is refused later, by its value */
        for (int64_t i = 0; i < bytes; i++) {
            ids[i] = vocab_find(&m->vocab, vocab_bytes(&m->vocab, id) + i, 1);
            spelled &= ids[i] >= 0;
        }
        if (spelled && bpe_merge(&m->merges, ids, bytes, &space) == 2)
            status = merges_add(&m->merges, ids[0], ids[1], (uint32_t)id, id);
    }
    bpe_space_close(&space);
    return status;
}

Status bpe_read_tiktoken(BpeTokenizer *m, const char *path)
{
    TRY(lines_read(m, path, token_line));
    m->byte_level = m->ignore_merges = true;
    TRY(family_find(m, path));
    TRY(merges_imply(m));
    return specials_add(m);
}
