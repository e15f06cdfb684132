/* A .tiktoken file as a byte-level BPE of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>
#include "convert/tokenizer/tokenizer_json.h"
#include "text/bpe/bpe_tokenizer.h"

enum { TOKEN_BYTES = 1024 };

json_t *tokenizer_json_special(int64_t id, const char *text, size_t bytes)
{
    return json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                     json_stringn(text, bytes), "single_word", false, "lstrip", false, "rstrip", false,
                     "normalized", false, "special", true);
}

json_t *tokenizer_json_make(json_t *added, json_t *normalizer, json_t *pre_tokenizer, json_t *decoder,
                            json_t *model)
{
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:n, s:o, s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added, "normalizer", normalizer, "pre_tokenizer",
                     pre_tokenizer, "post_processor", "decoder", decoder, "model", model);
}

/* The letters of the token's bytes, from out + used on. */
static size_t letters_put(char *out, size_t used, const Vocab *vocab, int32_t id)
{
    used += letters_of_bytes(out + used, vocab_bytes(vocab, id), vocab->length[id]);
    out[used] = 0;
    return used;
}

/* In the order of their ranks, which are the ids of what they make. */
static json_t *merges_json(const BpeTokenizer *m)
{
    char    text[4 * TOKEN_BYTES + 2];
    json_t *merges = json_array();
    for (int32_t rank = 0; rank < m->merges.capacity; rank++) {
        uint64_t pair = m->merges.pair[rank];
        if (pair == UINT64_MAX) continue;
        size_t used = letters_put(text, 0, &m->vocab, (int32_t)(pair >> MERGES_ID_BITS));
        text[used++] = ' ';
        letters_put(text, used, &m->vocab, (int32_t)(pair & MERGES_IDS));
        json_array_append_new(merges, json_string(text));
    }
    return merges;
}

/* Special tokens are in the vocabulary too, because a file may leave out ids before theirs. */
static json_t *model_json(const BpeTokenizer *m)
{
    char    text[2 * TOKEN_BYTES + 1];
    json_t *vocab = json_object();
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        if (!vocab_has(&m->vocab, id) || (m->special && m->special[id])) continue;
        letters_put(text, 0, &m->vocab, id);
        json_object_set_new(vocab, text, json_integer(id));
    }
    for (int i = 0; i < m->added.count; i++)
        json_object_setn_new(vocab, (const char *)m->added.token[i].text, (size_t)m->added.token[i].bytes,
                             json_integer(m->added.token[i].id));
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", false,
                     "byte_fallback", false, "ignore_merges", true, "vocab", vocab, "merges",
                     merges_json(m));
}

static json_t *level_json(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", false, "trim_offsets",
                     true, "use_regex", false);
}

static json_t *root_json(const BpeTokenizer *m)
{
    json_t *added = json_array();
    for (int i = 0; i < m->added.count; i++)
        json_array_append_new(added, tokenizer_json_special(m->added.token[i].id,
                                                            (const char *)m->added.token[i].text,
                                                            (size_t)m->added.token[i].bytes));
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              pretoken_pattern(m->pretokenizer.step[0].scan), "behavior", "Isolated",
                              "invert", false);
    json_t *steps = json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, level_json());
    return tokenizer_json_make(added, json_null(), steps, level_json(), model_json(m));
}

Status tiktoken_json(json_t **root, int64_t *end, const char *path)
{
    BpeTokenizer *m;
    TRY(bpe_tokenizer_open(&m, path));
    Status status = bpe_read_tiktoken(m, path);
    *root = status == OK ? root_json(m) : NULL;
    *end  = m->eod;
    bpe_tokenizer_close(m);
    if (status == OK && !*root) status = fail(NO_MEMORY, "%s: no memory for a tokenizer.json of it", path);
    return status;
}
