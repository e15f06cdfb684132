/* The tokenizer.json of tokenizers whose files transformers does not open: .tiktoken files, sentencepiece
 * models and the word "bytes". */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "convert/tokenizer/special_ids.h"
#include "convert/tokenizer/tokenizer_json.h"

/* ---- parts of the file ---- */

/* An added token that is special. */
static json_t *special_json(int64_t id, const char *text, size_t bytes)
{
    return json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                     json_stringn(text, bytes), "single_word", false, "lstrip", false, "rstrip", false,
                     "normalized", false, "special", true);
}

/* The whole file. Consumes the references. */
static json_t *file_json(json_t *added, json_t *normalizer, json_t *pre_tokenizer, json_t *decoder,
                         json_t *model)
{
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:n, s:o, s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added, "normalizer", normalizer, "pre_tokenizer",
                     pre_tokenizer, "post_processor", "decoder", decoder, "model", model);
}

/* unknown, vocab, merges: consumed */
static json_t *bpe_json(json_t *unknown, bool fuse, bool byte_fallback, bool ignore_merges, json_t *vocab,
                        json_t *merges)
{
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token", unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                     (int)fuse, "byte_fallback", (int)byte_fallback, "ignore_merges", (int)ignore_merges,
                     "vocab", vocab, "merges", merges);
}

static json_t *level_json(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", false, "trim_offsets",
                     true, "use_regex", false);
}

/* ---- bytes: a BPE of all of them without merges, and the end of document as a special token ---- */

json_t *bytes_json(const Tokenizer *t)
{
    char    letters[3], end[SPECIAL_TEXT] = "";
    json_t *vocab = json_object();
    special_text(end, t, t->eod);
    for (int b = 0; b < 256; b++) {
        letters[letters_of_bytes(letters, &(uint8_t){ (uint8_t)b }, 1)] = 0;
        json_object_set_new(vocab, letters, json_integer(b));
    }
    json_t *added = json_pack("[o]", special_json(t->eod, end, strlen(end)));
    return file_json(added, json_null(), level_json(), level_json(),
                     bpe_json(json_null(), false, false, false, vocab, json_array()));
}

/* ---- .tiktoken files: a byte-level BPE ---- */

size_t merge_letters(char out[MERGE_LETTERS], const BpeTokenizer *m, int32_t rank)
{
    const Vocab *v = &m->vocab;
    uint64_t     pair = m->merges.pair[rank];
    if (pair == UINT64_MAX) return 0;
    int32_t left = (int32_t)(pair >> MERGES_ID_BITS), right = (int32_t)(pair & MERGES_IDS);
    size_t  used = letters_of_bytes(out, vocab_bytes(v, left), v->length[left]);
    out[used++] = ' ';
    return used + letters_of_bytes(out + used, vocab_bytes(v, right), v->length[right]);
}

/* Special tokens are in the vocabulary too, because a file may leave out ids before theirs. Merges are in the
 * order of their ranks, which are the ids of what they make. */
static json_t *tiktoken_model_json(const BpeTokenizer *m)
{
    char    text[MERGE_LETTERS];
    size_t  bytes;
    json_t *vocab = json_object(), *merges = json_array();
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        if (!vocab_has(&m->vocab, id) || (m->special && m->special[id])) continue;
        bytes = letters_of_bytes(text, vocab_bytes(&m->vocab, id), m->vocab.length[id]);
        json_object_setn_new(vocab, text, bytes, json_integer(id));
    }
    for (int i = 0; i < m->added.count; i++)
        json_object_setn_new(vocab, (const char *)m->added.token[i].text, (size_t)m->added.token[i].bytes,
                             json_integer(m->added.token[i].id));
    for (int32_t rank = 0; rank < m->merges.capacity; rank++)
        if ((bytes = merge_letters(text, m, rank))) json_array_append_new(merges, json_stringn(text, bytes));
    return bpe_json(json_null(), false, false, true, vocab, merges);
}

static json_t *tiktoken_root_json(const BpeTokenizer *m)
{
    json_t *added = json_array();
    for (int i = 0; i < m->added.count; i++)
        json_array_append_new(added, special_json(m->added.token[i].id, (const char *)m->added.token[i].text,
                                                  (size_t)m->added.token[i].bytes));
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              pretoken_pattern(m->pretokenizer.step[0].scan), "behavior", "Isolated",
                              "invert", false);
    json_t *steps = json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, level_json());
    return file_json(added, json_null(), steps, level_json(), tiktoken_model_json(m));
}

Status tiktoken_json(json_t **root, const char *path)
{
    BpeTokenizer *m;
    TRY(bpe_tokenizer_open(&m, path));
    Status status = bpe_read_tiktoken(m, path);
    *root = status == OK ? tiktoken_root_json(m) : NULL;
    bpe_tokenizer_close(m);
    if (status == OK && !*root) status = fail(NO_MEMORY, "%s: no memory for a tokenizer.json of it", path);
    return status;
}

/* ---- sentencepiece models. The steps of the normalizer are: its table of characters, blanks at both ends
 * and repeated ones removed, a blank put before the text, blanks made marks. There is no pre-tokenizer,
 * because sentencepiece has none: a piece may contain blanks. ---- */

static const char MARK[] = "\xe2\x96\x81";              /* U+2581 */

const char *llama_pieces_other(const SentencePieceModel *m)
{
    if (m->kind != SP_MODEL_BPE) return "it is no BPE";
    if (m->charsmap.bytes)       return "it normalizes characters";
    if (m->drop_spaces)          return "it removes repeated blanks";
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (!m->dummy_prefix)        return "it adds no blank before a text";
    return m->byte_fallback ? NULL : "it has no tokens for bytes";
}

const char *sentencepiece_json_other(const SentencePieceModel *m)
{
    if (m->kind != SP_MODEL_BPE && m->kind != SP_MODEL_UNIGRAM) return "it is neither BPE nor unigram";
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (m->denormalizer.bytes) return "it changes characters when it decodes";
    for (int32_t i = 0; i < m->pieces; i++) {
        if (m->piece[i].kind == SP_PIECE_USER) return "it has pieces that users defined";
        if (m->piece[i].kind == SP_PIECE_UNUSED) return "it has pieces that are not used";
    }
    return NULL;
}

/* Base64 of bytes, a new reference. */
static json_t *base64_json(ByteSpan in)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char  *out = malloc(in.bytes / 3 * 4 + 5);
    size_t used = 0;
    for (size_t i = 0; out && i < in.bytes; i += 3) {
        uint32_t bits = 0;
        size_t   n = in.bytes - i < 3 ? in.bytes - i : 3;
        for (size_t b = 0; b < 3; b++) bits = bits << 8 | (b < n ? (uint8_t)in.data[i + b] : 0);
        for (size_t d = 0; d < 4; d++) out[used++] = d <= n ? digits[bits >> (18 - 6 * d) & 63] : '=';
    }
    json_t *text = out ? json_stringn(out, used) : NULL;
    free(out);
    return text;
}

static void replace_put(json_t *list, const char *kind, const char *pattern, const char *content)
{
    json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern,
                                          "content", content));
}

static json_t *normalizer_json(const SentencePieceModel *m)
{
    json_t *list = json_array();
    if (m->charsmap.bytes)
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", "Precompiled", "precompiled_charsmap",
                                              base64_json(m->charsmap)));
    if (m->drop_spaces) {
        replace_put(list, "Regex", "\\A +| +\\z", "");
        replace_put(list, "Regex", " {2,}", " ");
    }
    if (m->dummy_prefix)
        json_array_append_new(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MARK));
    replace_put(list, "String", " ", MARK);
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *decoder_json(const SentencePieceModel *m)
{
    json_t *list = json_array();
    replace_put(list, "String", MARK, " ");
    if (m->byte_fallback) json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(list, json_pack("{s:s}", "type", "Fuse"));
    if (m->dummy_prefix)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                              "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static json_t *text_json(ByteSpan text) { return json_stringn(text.data, text.bytes); }

int64_t pieces_unknown(const SentencePieceModel *m)
{
    for (int32_t i = 0; i < m->pieces; i++)
        if (m->piece[i].kind == SP_PIECE_UNKNOWN) return i;
    return -1;
}

static json_t *unigram_json(const SentencePieceModel *m)
{
    json_t *vocab = json_array();
    for (int32_t i = 0; i < m->pieces; i++)
        json_array_append_new(vocab,
                              json_pack("[o, f]", text_json(m->piece[i].text), (double)m->piece[i].score));
    return json_pack("{s:s, s:I, s:o, s:b}", "type", "Unigram", "unk_id", (json_int_t)pieces_unknown(m),
                     "vocab", vocab, "byte_fallback", (int)m->byte_fallback);
}

/* Two pieces merge where their concatenation is one, those of the highest score first. */
typedef struct { int32_t left, right, made; float score; } SentencePieceMerge;

static int merge_order(const void *a, const void *b)
{
    const SentencePieceMerge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->made != y->made) return x->made < y->made ? -1 : 1;
    return x->left != y->left ? (x->left < y->left ? -1 : 1) : (x->right > y->right) - (x->right < y->right);
}

static int32_t piece_find(const json_t *vocab, const char *text, size_t bytes)
{
    const json_t *id = json_object_getn(vocab, text, bytes);
    return id ? (int32_t)json_integer_value(id) : -1;
}

/* All ways to split each piece into two; *count of them, owned by the caller. */
static SentencePieceMerge *merges_find(size_t *count, const SentencePieceModel *m, const json_t *vocab)
{
    SentencePieceMerge *list = NULL;
    size_t room = 0;
    *count = 0;
    for (int32_t i = 0; i < m->pieces; i++)
        for (size_t cut = 1; m->piece[i].kind == SP_PIECE_NORMAL && cut < m->piece[i].text.bytes; cut++) {
            ByteSpan t = m->piece[i].text;
            int32_t  left = piece_find(vocab, t.data, cut),
                     right = left < 0 ? -1 : piece_find(vocab, t.data + cut, t.bytes - cut);
            if (right < 0) continue;
            if (ARRAY_RESERVE(list, room, *count + 1) != OK) return free(list), NULL;
            list[(*count)++] = (SentencePieceMerge){ left, right, i, m->piece[i].score };
        }
    if (list) qsort(list, *count, sizeof *list, merge_order);
    return list;
}

static json_t *pieces_json(const SentencePieceModel *m)
{
    size_t  count;
    json_t *vocab = json_object(), *pieces = json_object(), *merges = json_array();
    for (int32_t i = 0; i < m->pieces; i++) {
        ByteSpan t = m->piece[i].text;
        json_object_setn_new(vocab, t.data, t.bytes, json_integer(i));
        if (m->piece[i].kind == SP_PIECE_NORMAL)
            json_object_setn_new(pieces, t.data, t.bytes, json_integer(i));
    }
    SentencePieceMerge *list = merges_find(&count, m, pieces);
    json_decref(pieces);
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(merges, json_pack("[o, o]", text_json(m->piece[list[i].left].text),
                                                text_json(m->piece[list[i].right].text)));
    free(list);
    int64_t unknown = pieces_unknown(m);
    return bpe_json(unknown < 0 ? json_null() : text_json(m->piece[unknown].text), true, m->byte_fallback,
                    false, vocab, merges);
}

static json_t *pieces_root_json(const SentencePieceModel *m)
{
    json_t *added = json_array();
    for (int32_t i = 0; i < m->pieces; i++)
        if (m->piece[i].kind == SP_PIECE_UNKNOWN || m->piece[i].kind == SP_PIECE_CONTROL)
            json_array_append_new(added, special_json(i, m->piece[i].text.data, m->piece[i].text.bytes));
    return file_json(added, normalizer_json(m), json_null(), decoder_json(m),
                               m->kind == SP_MODEL_UNIGRAM ? unigram_json(m) : pieces_json(m));
}

Status sentencepiece_json(json_t **root, const char *path)
{
    FileMap            map;
    SentencePieceModel m;
    TRY(file_map(&map, path));
    Status status = sentencepiece_model_read(&m, map.data, map.size, path);
    if (status == OK) {
        const char *why = sentencepiece_json_other(&m);
        *root = why ? NULL : pieces_root_json(&m);
        if (why)
            status = fail(BAD_OPTION,
                          "--tokenizer %s: a tokenizer.json cannot say what this model does: %s; give the "
                          "folder of a tokenizer that transformers opens",
                          path, why);
        else if (!*root) status = fail(NO_MEMORY, "%s: no memory for a tokenizer.json of it", path);
        sentencepiece_model_close(&m);
    }
    file_unmap(&map);
    return status;
}
