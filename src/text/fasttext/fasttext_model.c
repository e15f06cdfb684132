/* Reads a fastText model (FastText::loadModel of fasttext.cc): header, arguments, dictionary, pruned buckets,
 * two matrices. Each read checks the remaining size and the range of the value, and reports the byte where
 * the file is malformed. */
#include "text/fasttext/fasttext_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* WORD_BYTES_MIN: of a word in the file, its terminating zero, count and kind. PROBES_MAX: longest run of
 * occupied hash slots */
enum { MAGIC = 793712314, VERSION = 12, VERSION_OLD = 11, SUPERVISED = 3, WORD_BYTES_MIN = 10,
       PROBES_MAX = 1000 };
static const int64_t LABEL_COUNT_MAX = 1000000000000000;       /* 1e15: infinity in fastText's Huffman tree */
static const float   NUMBER_MAX = 1e6f;                        /* sums of products of three stay finite */

/* The file being read: at .. end. begin and path are for messages. */
typedef struct { const uint8_t *at, *end, *begin; const char *path; } ModelReader;

#define BROKEN(wire, why, ...) \
    fail(BAD_FILE, "%s: byte %td: " why "; the model is damaged or truncated: copy it again", (wire)->path, \
         (wire)->at - (wire)->begin, __VA_ARGS__)

/* ---- values of the file ---- */

static int64_t left_of(const ModelReader *w) { return w->end - w->at; }

static Status bytes_read(const uint8_t **piece, ModelReader *w, int64_t bytes, const char *what)
{
    if (bytes < 0 || bytes > left_of(w))
        return BROKEN(w, "%s: %" PRId64 " bytes are expected and %" PRId64 " are left", what, bytes,
                      left_of(w));
    *piece = w->at;
    w->at += bytes;
    return OK;
}

static Status value_read(void *value, ModelReader *w, size_t bytes, const char *what)
{
    const uint8_t *piece = NULL;
    TRY(bytes_read(&piece, w, (int64_t)bytes, what));
    memcpy(value, piece, bytes);
    return OK;
}

/* A count or size, which must be within its range; on failure `at` is its position, for the message. */
static Status int_read(int32_t *value, ModelReader *w, int32_t least, int32_t most, const char *what)
{
    TRY(value_read(value, w, sizeof *value, what));
    if (*value >= least && *value <= most) return OK;
    w->at -= sizeof *value;
    return BROKEN(w, "%s is %d, which is not one of %d to %d", what, *value, least, most);
}

static Status long_read(int64_t *value, ModelReader *w, int64_t least, int64_t most, const char *what)
{
    TRY(value_read(value, w, sizeof *value, what));
    if (*value >= least && *value <= most) return OK;
    w->at -= sizeof *value;
    return BROKEN(w, "%s is %" PRId64 ", which is not one of %" PRId64 " to %" PRId64, what, *value, least,
                  most);
}

static Status flag_read(bool *value, ModelReader *w, const char *what)
{
    uint8_t byte;
    TRY(value_read(&byte, w, 1, what));
    *value = byte;
    if (byte < 2) return OK;
    w->at--;
    return BROKEN(w, "%s is %d, neither 0 nor 1", what, byte);
}

static Status floats_read(const uint8_t **piece, ModelReader *w, int64_t count, const char *what)
{
    if (count > left_of(w) / 4)
        return BROKEN(w, "%s: %" PRId64 " numbers are expected and %" PRId64 " bytes are left", what, count,
                      left_of(w));
    for (int64_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, w->at + 4 * i, sizeof value);
        if (fabsf(value) <= NUMBER_MAX) continue;
        w->at += 4 * i;
        return BROKEN(w, "number %" PRId64 " of %s is %g", i, what, (double)value);
    }
    return bytes_read(piece, w, 4 * count, what);
}

/* ---- header and arguments ---- */

static Status magic_read(ModelReader *w, int32_t *version)
{
    int32_t magic = 0;
    if (left_of(w) >= 8) TRY(value_read(&magic, w, sizeof magic, "the magic number"));
    if (magic != MAGIC)
        return fail(BAD_FILE, "%s: is not a fastText model (it does not begin with fastText's magic number);"
                    " give a .bin or .ftz file", w->path);
    TRY(value_read(version, w, sizeof *version, "the version"));
    if (*version == VERSION || *version == VERSION_OLD) return OK;
    return fail(BAD_FILE, "%s: is a fastText model of version %d, and versions %d and %d are read; save it"
                " with fastText 0.9", w->path, *version, VERSION_OLD, VERSION);
}

static Status arguments_read(FasttextModel *m, ModelReader *w, int32_t version)
{
    int32_t any, kind;
    double  sampling;
    TRY(int_read(&m->dim, w, 1, FASTTEXT_DIM_MAX, "the dimension"));
    for (int i = 0; i < 4; i++)                                    /* ws, epoch, minCount, neg: of training */
        TRY(value_read(&any, w, sizeof any, "the arguments"));
    TRY(int_read(&m->word_ngram, w, INT32_MIN, FASTTEXT_NGRAM_MAX, "the length of word n-grams"));
    TRY(int_read(&m->loss, w, FASTTEXT_HIERARCHICAL, FASTTEXT_ONE_VS_ALL, "the loss"));
    TRY(int_read(&kind, w, 1, SUPERVISED, "the kind of model"));
    TRY(int_read(&m->bucket, w, 0, INT32_MAX, "the number of buckets"));
    TRY(int_read(&m->ngram_min, w, INT32_MIN, FASTTEXT_NGRAM_MAX, "the shortest subword"));
    TRY(int_read(&m->ngram_max, w, INT32_MIN, FASTTEXT_NGRAM_MAX, "the longest subword"));
    TRY(value_read(&any, w, sizeof any, "the arguments"));                                 /* lrUpdateRate */
    TRY(value_read(&sampling, w, sizeof sampling, "the arguments"));
    if (kind != SUPERVISED)
        return fail(BAD_FILE, "%s: holds word vectors, not labels; give a model of `fasttext supervised`",
                    w->path);
    if (version == VERSION_OLD || m->ngram_max < 0) m->ngram_max = 0;
    if (m->word_ngram < 1) m->word_ngram = 1;
    if (m->bucket || (m->ngram_max == 0 && m->word_ngram == 1)) return OK;
    return BROKEN(w, "no buckets for subwords of up to %d characters and word %d-grams", m->ngram_max,
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

static Status word_read(FasttextWord *word, ModelReader *w, bool label)
{
    const uint8_t *end = memchr(w->at, 0, (size_t)left_of(w));
    uint8_t kind;
    if (!end) return BROKEN(w, "a word%s has no end", "");
    if (end - w->at > INT32_MAX) return BROKEN(w, "a word of %td bytes", end - w->at);
    *word = (FasttextWord){ .text = (const char *)w->at, .bytes = (uint32_t)(end - w->at), .label = label };
    w->at = end + 1;
    TRY(long_read(&word->count, w, 0, INT64_MAX, "a word's count"));
    TRY(value_read(&kind, w, 1, "a word's kind"));
    if (kind == label) return OK;
    w->at--;
    return BROKEN(w, "an entry of kind %d where a %s is expected", kind, label ? "label" : "word");
}

/* kept: the number of buckets that were not pruned; -1: no pruning */
static Status sizes_read(FasttextModel *m, ModelReader *w, int64_t *kept)
{
    int32_t size;
    int64_t tokens, most = left_of(w) / WORD_BYTES_MIN;
    TRY(int_read(&size, w, 1, most < INT32_MAX / 4 ? (int32_t)most : INT32_MAX / 4, "the number of words and labels"));
    TRY(int_read(&m->words, w, 0, size, "the number of words"));
    TRY(int_read(&m->labels, w, 1, size, "the number of labels"));
    TRY(long_read(&tokens, w, 0, INT64_MAX, "the number of tokens"));
    most = left_of(w) / (int64_t)sizeof(FasttextKeptBucket);
    TRY(long_read(kept, w, -1, most < INT32_MAX / 4 ? most : INT32_MAX / 4, "the number of buckets kept"));
    if (m->words + m->labels == size) return OK;
    return BROKEN(w, "%d words and %d labels are not the %d entries announced", m->words, m->labels, size);
}

static Status words_read(FasttextModel *m, ModelReader *w)
{
    int64_t label_count = 0;
    m->slots = slots_for(m->words + m->labels);
    m->word  = calloc((size_t)(m->words + m->labels), sizeof *m->word);
    m->slot  = calloc(m->slots, sizeof *m->slot);
    if (!m->word || !m->slot)
        return fail(NO_MEMORY, "%s: no memory for %d words", w->path, m->words + m->labels);
    for (int32_t i = 0; i < m->words + m->labels; i++) {
        FasttextWord *word = &m->word[i];
        TRY(word_read(word, w, i >= m->words));
        if (word->label && word->count >= LABEL_COUNT_MAX - label_count)
            return BROKEN(w, "%s and the labels before it have counts of 1e15 or more together", word->text);
        if (word->label) label_count += word->count;
        uint32_t hash = fasttext_hash((const uint8_t *)word->text, word->bytes);
        uint32_t at   = word_slot(m, word->text, word->bytes, hash);
        if (((at - slot_start(m, hash)) & (m->slots - 1)) > PROBES_MAX)
            return BROKEN(w, "more than %d words collide in the hash table", PROBES_MAX);
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

static Status kept_buckets_read(FasttextModel *m, ModelReader *w, int64_t count)
{
    m->pruned = count >= 0;
    if (count < 1) return OK;
    m->kept_slots = slots_for(count);
    m->kept = malloc(m->kept_slots * sizeof *m->kept);
    if (!m->kept) return fail(NO_MEMORY, "%s: no memory for %" PRId64 " buckets", w->path, count);
    memset(m->kept, -1, m->kept_slots * sizeof *m->kept);
    for (int64_t i = 0; i < count; i++) {
        FasttextKeptBucket kept;
        TRY(int_read(&kept.from, w, 0, m->bucket ? m->bucket - 1 : 0, "a bucket that was kept"));
        TRY(int_read(&kept.to, w, 0, (int32_t)count - 1, "a bucket's new number"));
        uint32_t at = kept_slot(m, kept.from);
        if (((at - kept_start(m, kept.from)) & (m->kept_slots - 1)) > PROBES_MAX)
            return BROKEN(w, "more than %d buckets collide in the hash table", PROBES_MAX);
        m->kept[at] = kept;
    }
    return OK;
}

/* ---- matrices ---- */

/* The rows and columns of a matrix, which the dictionary and the arguments determine */
static Status dimensions_read(FasttextMatrix *x, ModelReader *w, int64_t rows, const char *what)
{
    int64_t dim;
    TRY(long_read(&x->rows, w, rows, rows, what));
    TRY(long_read(&dim, w, x->dim, x->dim, what));
    return OK;
}

/* A product quantizer (productquantizer.cc): its parts and their centroids */
static Status quantizer_read(const uint8_t **centroid, FasttextMatrix *x, int32_t dim, ModelReader *w,
                             const char *what)
{
    int32_t whole;
    TRY(int_read(&whole, w, dim, dim, what));
    TRY(int_read(&x->parts, w, 1, dim, what));
    TRY(int_read(&x->width, w, 1, dim, what));
    TRY(int_read(&x->last, w, 1, x->width, what));
    if ((int64_t)(x->parts - 1) * x->width + x->last != dim)
        return BROKEN(w, "%s: %d parts of %d, the last of %d, are not %d dimensions", what, x->parts,
                      x->width, x->last, dim);
    return floats_read(centroid, w, (int64_t)FASTTEXT_CENTROIDS * dim, what);
}

static Status quantized_read(FasttextMatrix *x, ModelReader *w, int64_t rows, const char *what)
{
    bool    norms;
    int32_t codes;
    FasttextMatrix norm = { .rows = rows };
    TRY(flag_read(&norms, w, what));
    TRY(dimensions_read(x, w, rows, what));
    TRY(int_read(&codes, w, 0, INT32_MAX, what));
    TRY(bytes_read(&x->code, w, codes, what));
    TRY(quantizer_read(&x->centroid, x, x->dim, w, what));
    if ((int64_t)x->parts * rows != codes)
        return BROKEN(w, "%s: %d codes are not %" PRId64 " rows of %d parts", what, codes, rows, x->parts);
    if (!norms) return OK;
    TRY(bytes_read(&x->norm, w, rows, what));
    return quantizer_read(&x->norm_centroid, &norm, 1, w, what);
}

static Status matrix_read(FasttextMatrix *x, ModelReader *w, bool quantized, int64_t rows, int32_t dim,
                          const char *what)
{
    x->dim = dim;
    if (quantized) return quantized_read(x, w, rows, what);
    TRY(dimensions_read(x, w, rows, what));
    return floats_read(&x->dense, w, rows * dim, what);
}

/* grams: rows of the input matrix after those of the words, for buckets */
static Status matrices_read(FasttextModel *m, ModelReader *w, int64_t grams)
{
    bool input, output;
    TRY(flag_read(&input, w, "the input's kind"));
    TRY(matrix_read(&m->input, w, input, m->words + grams, m->dim, "the input matrix"));
    TRY(flag_read(&output, w, "the output's kind"));
    TRY(matrix_read(&m->output, w, input && output, m->labels, m->dim, "the output matrix"));
    if (left_of(w)) return BROKEN(w, "%" PRId64 " bytes more than a model has", left_of(w));
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
    ModelReader w = { m->file.data, m->file.data + m->file.size, m->file.data, m->file.path };
    TRY(magic_read(&w, &version));
    TRY(arguments_read(m, &w, version));
    TRY(sizes_read(m, &w, &kept));
    TRY(words_read(m, &w));
    TRY(kept_buckets_read(m, &w, kept));
    return matrices_read(m, &w, m->pruned ? kept : m->bucket);
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
