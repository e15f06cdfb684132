/* Reads a fastText model (FastText::loadModel of fasttext.cc): header, arguments, dictionary, pruned buckets,
 * two matrices. Each read checks the remaining size and the range of the value, and reports the byte where
 * the file is malformed. */
#include "text/fasttext/fasttext_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/reader.h"

/* WORD_BYTES_MIN: of a word in the file, its terminating zero, count and kind. PROBES_MAX: longest run of
 * occupied hash slots */
enum { MAGIC = 793712314, VERSION = 12, VERSION_OLD = 11, SUPERVISED = 3, WORD_BYTES_MIN = 10,
       PROBES_MAX = 1000 };
static const int64_t LABEL_COUNT_MAX = 1000000000000000;       /* 1e15: infinity in fastText's Huffman tree */
static const float   NUMBER_MAX = 1e6f;                        /* sums of products of three stay finite */

/* ---- values of the file ---- */

static int64_t left_of(const ByteReader *r) { return (int64_t)reader_left(r); }

static Status flag_read(bool *value, ByteReader *r, const char *what)
{
    uint64_t byte;
    TRY(reader_number(&byte, r, 1, what));
    *value = byte;
    if (byte < 2) return OK;
    r->at--;
    return reader_refuse(r, "%s is %d, neither 0 nor 1", what, (int)byte);
}

static Status floats_read(const uint8_t **piece, ByteReader *r, int64_t count, const char *what)
{
    if (count > left_of(r) / 4)
        return reader_refuse(r, "%s: %" PRId64 " numbers are expected and %" PRId64 " bytes are left", what,
                             count, left_of(r));
    for (int64_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, r->at + 4 * i, sizeof value);
        if (fabsf(value) <= NUMBER_MAX) continue;
        r->at += 4 * i;
        return reader_refuse(r, "number %" PRId64 " of %s is %g", i, what, (double)value);
    }
    return reader_bytes(piece, r, 4 * (uint64_t)count, what);
}

/* ---- header and arguments ---- */

static Status magic_read(ByteReader *r, int32_t *version)
{
    int32_t magic = 0;
    if (left_of(r) >= 8) TRY(reader_int32(&magic, r, INT32_MIN, INT32_MAX, "the magic number"));
    if (magic != MAGIC)
        return fail(BAD_FILE, "%s: is not a fastText model (it does not begin with fastText's magic number);"
                    " give a .bin or .ftz file", r->path);
    TRY(reader_int32(version, r, INT32_MIN, INT32_MAX, "the version"));
    if (*version == VERSION || *version == VERSION_OLD) return OK;
    return fail(BAD_FILE, "%s: is a fastText model of version %d, and versions %d and %d are read; save it"
                " with fastText 0.9", r->path, *version, VERSION_OLD, VERSION);
}

static Status arguments_read(FasttextModel *m, ByteReader *r, int32_t version)
{
    const uint8_t *any;
    int32_t kind;
    TRY(reader_int32(&m->dim, r, 1, FASTTEXT_DIM_MAX, "the dimension"));
    TRY(reader_bytes(&any, r, 4 * 4, "the arguments"));            /* ws, epoch, minCount, neg: of training */
    TRY(reader_int32(&m->word_ngram, r, INT32_MIN, FASTTEXT_NGRAM_MAX, "the length of word n-grams"));
    TRY(reader_int32(&m->loss, r, FASTTEXT_HIERARCHICAL, FASTTEXT_ONE_VS_ALL, "the loss"));
    TRY(reader_int32(&kind, r, 1, SUPERVISED, "the kind of model"));
    TRY(reader_int32(&m->bucket, r, 0, INT32_MAX, "the number of buckets"));
    TRY(reader_int32(&m->ngram_min, r, INT32_MIN, FASTTEXT_NGRAM_MAX, "the shortest subword"));
    TRY(reader_int32(&m->ngram_max, r, INT32_MIN, FASTTEXT_NGRAM_MAX, "the longest subword"));
    TRY(reader_bytes(&any, r, 4 + 8, "the arguments"));            /* lrUpdateRate, t */
    if (kind != SUPERVISED)
        return fail(BAD_FILE, "%s: holds word vectors, not labels; give a model of `fasttext supervised`",
                    r->path);
    if (version == VERSION_OLD || m->ngram_max < 0) m->ngram_max = 0;
    if (m->word_ngram < 1) m->word_ngram = 1;
    if (m->bucket || (m->ngram_max == 0 && m->word_ngram == 1)) return OK;
    return reader_refuse(r, "no buckets for subwords of up to %d characters and word %d-grams", m->ngram_max,
                         m->word_ngram);
}

/* ---- words ---- */

static uint32_t slots_for(int64_t count)
{
    uint32_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    return slots;
}

static uint32_t slot_start(const FasttextModel *m, uint32_t hash)
{
    return (hash ^ hash >> 15) & (m->slots - 1);
}

/* The slot of a word, or the empty one where it belongs. text has no zero byte, so strncmp compares all of
 * it. */
static uint32_t word_slot(const FasttextModel *m, const char *text, size_t bytes, uint32_t hash)
{
    uint32_t at = slot_start(m, hash);
    for (const FasttextSlot *slot; (slot = &m->slot[at])->text; at = (at + 1) & (m->slots - 1))
        if (slot->hash == hash && !strncmp(slot->text, text, bytes) && !slot->text[bytes]) break;
    return at;
}

int32_t fasttext_word_find(const FasttextModel *m, const uint8_t *text, int64_t bytes, uint32_t hash)
{
    const FasttextSlot *slot = &m->slot[word_slot(m, (const char *)text, (size_t)bytes, hash)];
    return slot->text ? slot->id : -1;
}

void fasttext_word_prefetch(const FasttextModel *m,
                            uint32_t hash) { __builtin_prefetch(&m->slot[slot_start(m, hash)]); }

static Status word_read(FasttextWord *word, ByteReader *r, bool label)
{
    const uint8_t *end = memchr(r->at, 0, reader_left(r));
    uint64_t kind;
    if (!end) return reader_refuse(r, "a word has no end");
    if (end - r->at > INT32_MAX) return reader_refuse(r, "a word of %td bytes", end - r->at);
    *word = (FasttextWord){ .text = (const char *)r->at, .bytes = (uint32_t)(end - r->at), .label = label };
    r->at = end + 1;
    TRY(reader_integer(&word->count, r, 8, 0, INT64_MAX, "a word's count"));
    TRY(reader_number(&kind, r, 1, "a word's kind"));
    if (kind == (uint64_t)label) return OK;
    r->at--;
    return reader_refuse(r, "an entry of kind %d where a %s is expected", (int)kind,
                         label ? "label" : "word");
}

/* kept: the number of buckets that were not pruned; -1: no pruning */
static Status sizes_read(FasttextModel *m, ByteReader *r, int64_t *kept)
{
    int32_t size;
    int64_t tokens, most = left_of(r) / WORD_BYTES_MIN;
    TRY(reader_int32(&size, r, 1, most < INT32_MAX / 4 ? (int32_t)most : INT32_MAX / 4,
                     "the number of words and labels"));
    TRY(reader_int32(&m->words, r, 0, size, "the number of words"));
    TRY(reader_int32(&m->labels, r, 1, size, "the number of labels"));
    TRY(reader_integer(&tokens, r, 8, 0, INT64_MAX, "the number of tokens"));
    most = left_of(r) / (int64_t)sizeof(FasttextKeptBucket);
    TRY(reader_integer(kept, r, 8, -1, most < INT32_MAX / 4 ? most : INT32_MAX / 4,
                       "the number of buckets kept"));
    if (m->words + m->labels == size) return OK;
    return reader_refuse(r, "%d words and %d labels are not the %d entries announced", m->words, m->labels,
                         size);
}

static Status words_read(FasttextModel *m, ByteReader *r)
{
    int64_t label_count = 0;
    m->slots = slots_for(m->words + m->labels);
    m->word  = calloc((size_t)(m->words + m->labels), sizeof *m->word);
    m->slot  = calloc(m->slots, sizeof *m->slot);
    if (!m->word || !m->slot)
        return fail(NO_MEMORY, "%s: no memory for %d words", r->path, m->words + m->labels);
    for (int32_t i = 0; i < m->words + m->labels; i++) {
        FasttextWord *word = &m->word[i];
        TRY(word_read(word, r, i >= m->words));
        if (word->label && word->count >= LABEL_COUNT_MAX - label_count)
            return reader_refuse(r, "%s and the labels before it have counts of 1e15 or more together",
                                 word->text);
        if (word->label) label_count += word->count;
        uint32_t hash = fasttext_hash((const uint8_t *)word->text, word->bytes);
        uint32_t at   = word_slot(m, word->text, word->bytes, hash);
        if (((at - slot_start(m, hash)) & (m->slots - 1)) > PROBES_MAX)
            return reader_refuse(r, "more than %d words collide in the hash table", PROBES_MAX);
        m->slot[at] = (FasttextSlot){ word->text, hash, i };  /* of equal words the last one counts, as in
                                                               * fastText */
    }
    return OK;
}

/* ---- buckets that were not pruned ---- */

static uint32_t kept_start(const FasttextModel *m, int32_t bucket)
{
    uint32_t hash = (uint32_t)bucket * 2654435769u;
    return (hash ^ hash >> 16) & (m->kept_slots - 1);
}

static uint32_t kept_slot(const FasttextModel *m, int32_t bucket)
{
    uint32_t at = kept_start(m, bucket);
    while (m->kept[at].from >= 0 && m->kept[at].from != bucket) at = (at + 1) & (m->kept_slots - 1);
    return at;
}

int32_t fasttext_bucket_find(const FasttextModel *m, int32_t bucket)
{
    return m->kept_slots ? m->kept[kept_slot(m, bucket)].to : -1;
}

static Status kept_buckets_read(FasttextModel *m, ByteReader *r, int64_t count)
{
    m->pruned = count >= 0;
    if (count < 1) return OK;
    m->kept_slots = slots_for(count);
    m->kept = malloc(m->kept_slots * sizeof *m->kept);
    if (!m->kept) return fail(NO_MEMORY, "%s: no memory for %" PRId64 " buckets", r->path, count);
    memset(m->kept, -1, m->kept_slots * sizeof *m->kept);
    for (int64_t i = 0; i < count; i++) {
        FasttextKeptBucket kept;
        TRY(reader_int32(&kept.from, r, 0, m->bucket ? m->bucket - 1 : 0, "a bucket that was kept"));
        TRY(reader_int32(&kept.to, r, 0, (int32_t)count - 1, "a bucket's new number"));
        uint32_t at = kept_slot(m, kept.from);
        if (((at - kept_start(m, kept.from)) & (m->kept_slots - 1)) > PROBES_MAX)
            return reader_refuse(r, "more than %d buckets collide in the hash table", PROBES_MAX);
        m->kept[at] = kept;
    }
    return OK;
}

/* ---- matrices ---- */

/* The rows and columns of a matrix, which the dictionary and the arguments determine */
static Status dimensions_read(FasttextMatrix *x, ByteReader *r, int64_t rows, const char *what)
{
    int64_t dim;
    TRY(reader_integer(&x->rows, r, 8, rows, rows, what));
    TRY(reader_integer(&dim, r, 8, x->dim, x->dim, what));
    return OK;
}

/* A product quantizer (productquantizer.cc): its parts and their centroids */
static Status quantizer_read(const uint8_t **centroid, FasttextMatrix *x, int32_t dim, ByteReader *r,
                             const char *what)
{
    int32_t whole;
    TRY(reader_int32(&whole, r, dim, dim, what));
    TRY(reader_int32(&x->parts, r, 1, dim, what));
    TRY(reader_int32(&x->width, r, 1, dim, what));
    TRY(reader_int32(&x->last, r, 1, x->width, what));
    if ((int64_t)(x->parts - 1) * x->width + x->last != dim)
        return reader_refuse(r, "%s: %d parts of %d, the last of %d, are not %d dimensions", what, x->parts,
                             x->width, x->last, dim);
    return floats_read(centroid, r, (int64_t)FASTTEXT_CENTROIDS * dim, what);
}

static Status quantized_read(FasttextMatrix *x, ByteReader *r, int64_t rows, const char *what)
{
    bool    norms;
    int32_t codes;
    FasttextMatrix norm = { .rows = rows };
    TRY(flag_read(&norms, r, what));
    TRY(dimensions_read(x, r, rows, what));
    TRY(reader_int32(&codes, r, 0, INT32_MAX, what));
    TRY(reader_bytes(&x->code, r, (uint64_t)codes, what));
    TRY(quantizer_read(&x->centroid, x, x->dim, r, what));
    if ((int64_t)x->parts * rows != codes)
        return reader_refuse(r, "%s: %d codes are not %" PRId64 " rows of %d parts", what, codes, rows,
                             x->parts);
    if (!norms) return OK;
    TRY(reader_bytes(&x->norm, r, (uint64_t)rows, what));
    return quantizer_read(&x->norm_centroid, &norm, 1, r, what);
}

static Status matrix_read(FasttextMatrix *x, ByteReader *r, bool quantized, int64_t rows, int32_t dim,
                          const char *what)
{
    x->dim = dim;
    if (quantized) return quantized_read(x, r, rows, what);
    TRY(dimensions_read(x, r, rows, what));
    return floats_read(&x->dense, r, rows * dim, what);
}

/* grams: rows of the input matrix after those of the words, for buckets */
static Status matrices_read(FasttextModel *m, ByteReader *r, int64_t grams)
{
    bool input, output;
    TRY(flag_read(&input, r, "the input's kind"));
    TRY(matrix_read(&m->input, r, input, m->words + grams, m->dim, "the input matrix"));
    TRY(flag_read(&output, r, "the output's kind"));
    TRY(matrix_read(&m->output, r, input && output, m->labels, m->dim, "the output matrix"));
    if (left_of(r)) return reader_refuse(r, "%" PRId64 " bytes more than a model has", left_of(r));
    return OK;
}

/* ---- rows ---- */

static void floats_add(float *sum, const uint8_t *from, float factor, int32_t count)
{
    for (int32_t d = 0; d < count; d++) {
        float value;
        memcpy(&value, from + 4 * d, sizeof value);
        sum[d] += factor * value;
    }
}

/* sum += norm * the concatenated centroids of a quantized row */
static void codes_add(float *sum, const FasttextMatrix *x, int64_t row)
{
    const uint8_t *code = x->code + row * x->parts;
    float factor = 1;
    if (x->norm) memcpy(&factor, x->norm_centroid + 4 * x->norm[row], sizeof factor);
    for (int32_t p = 0; p < x->parts; p++) {
        int32_t width = p == x->parts - 1 ? x->last : x->width;
        int64_t from  = (int64_t)p * FASTTEXT_CENTROIDS * x->width + (int64_t)code[p] * width;
        floats_add(sum + p * x->width, x->centroid + 4 * from, factor, width);
    }
}

/* Sums sixteen columns of all rows, in registers. from: the first of the columns in row 0 */
static void columns_16_sum(float *sum, const FasttextMatrix *x, const uint8_t *from, const int64_t *row,
                           int32_t rows)
{
    FasttextFloat4 *to = (FasttextFloat4 *)sum, a = to[0], b = to[1], c = to[2], d = to[3];
    for (int32_t i = 0; i < rows; i++) {
        const FasttextFloat4 *more = (const FasttextFloat4 *)(from + row[i] * x->dim * 4);
        a += more[0], b += more[1], c += more[2], d += more[3];
    }
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

void fasttext_rows_sum(float *sum, const FasttextMatrix *x, const int64_t *row, int32_t rows)
{
    int32_t d = 0;
    for (int32_t i = 0; !x->dense && i < rows; i++) codes_add(sum, x, row[i]);
    if (!x->dense) return;
    for (; d + 16 <= x->dim; d += 16) columns_16_sum(sum + d, x, x->dense + 4 * d, row, rows);
    for (int32_t i = 0; i < rows && d < x->dim; i++)
        floats_add(sum + d, x->dense + (row[i] * x->dim + d) * 4, 1, x->dim - d);
}

/* ---- opening and closing ---- */

static Status model_read(FasttextModel *m)
{
    int32_t version;
    int64_t kept;
    ByteReader r = reader_open(m->file.data, m->file.size, m->file.path,
                               "the model is damaged or truncated: copy it again");
    TRY(magic_read(&r, &version));
    TRY(arguments_read(m, &r, version));
    TRY(sizes_read(m, &r, &kept));
    TRY(words_read(m, &r));
    TRY(kept_buckets_read(m, &r, kept));
    return matrices_read(m, &r, m->pruned ? kept : m->bucket);
}

Status fasttext_model_open(FasttextModel *m, const char *path)
{
    *m = (FasttextModel){ 0 };
    TRY(file_map(&m->file, path));
    Status status = model_read(m);
    if (status != OK) fasttext_model_close(m);
    return status;
}

void fasttext_model_close(FasttextModel *m)
{
    free(m->word);
    free(m->slot);
    free(m->kept);
    file_unmap(&m->file);
    *m = (FasttextModel){ 0 };
}
