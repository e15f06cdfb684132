#ifndef TESTS_TEXT_FASTTEXT_FAKE_H
#define TESTS_TEXT_FASTTEXT_FAKE_H
/* Small fastText models of random numbers, written to a file from the format's description. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { uint8_t data[1 << 17]; size_t bytes; } FakeFile;
typedef struct {
    bool    quantised, norms;
    int     rows, dim, parts, width, last;
    float   dense[4096], centroid[256 * 32], norm_centroid[256];
    uint8_t code[4096], norm[256];
} FakeMatrix;
typedef struct {
    int dim, word_ngram, loss, bucket, minn, maxn, words, labels;
    const char *word[40];                        /* labels last */
    int64_t count[40];
    int kept;                                    /* -1: not pruned */
    int from[64];                                /* bucket of kept row i */
    FakeMatrix input, output;
} Fake;

static inline uint32_t fake_random(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }
static inline float fake_float(uint32_t *state) { return (float)(fake_random(state) % 20001) * 1e-4f - 1; }

static inline void put(FakeFile *f, const void *data, size_t bytes)
{
    if (f->bytes + bytes > sizeof f->data) abort();
    memcpy(f->data + f->bytes, data, bytes);
    f->bytes += bytes;
}
static inline void put_int(FakeFile *f, int32_t value)  { put(f, &value, sizeof value); }
static inline void put_long(FakeFile *f, int64_t value) { put(f, &value, sizeof value); }
static inline void put_byte(FakeFile *f, uint8_t value) { put(f, &value, 1); }

static inline void matrix_fill(FakeMatrix *x, uint32_t *state, int rows, int dim, bool quantised, bool norms, int width)
{
    *x = (FakeMatrix){ .quantised = quantised, .norms = norms, .rows = rows, .dim = dim, .width = width };
    x->parts = (dim + width - 1) / width;
    x->last  = dim - (x->parts - 1) * width;
    for (int i = 0; i < rows * dim; i++) x->dense[i] = fake_float(state);
    for (int i = 0; i < 256 * dim; i++) x->centroid[i] = fake_float(state);
    for (int i = 0; i < 256; i++) x->norm_centroid[i] = 1 + fake_float(state) / 2;
    for (int i = 0; i < rows * x->parts; i++) x->code[i] = (uint8_t)fake_random(state);
    for (int i = 0; i < rows; i++) x->norm[i] = (uint8_t)fake_random(state);
}

static inline double matrix_at(const FakeMatrix *x, int row, int d)
{
    if (!x->quantised) return (double)x->dense[row * x->dim + d];
    int part = d / x->width, width = part == x->parts - 1 ? x->last : x->width;
    const float *centroid = x->centroid + part * 256 * x->width + x->code[row * x->parts + part] * width;
    return (double)centroid[d - part * x->width] * (x->norms ? (double)x->norm_centroid[x->norm[row]] : 1);
}

static inline void put_quantiser(FakeFile *f, int dim, int parts, int width, int last, const float *centroid)
{
    put_int(f, dim), put_int(f, parts), put_int(f, width), put_int(f, last);
    put(f, centroid, 4 * 256 * (size_t)dim);
}

static inline void put_matrix(FakeFile *f, const FakeMatrix *x)
{
    if (x->quantised) put_byte(f, x->norms);
    put_long(f, x->rows), put_long(f, x->dim);
    if (!x->quantised) {
        put(f, x->dense, 4 * (size_t)(x->rows * x->dim));
        return;
    }
    put_int(f, x->rows * x->parts);
    put(f, x->code, (size_t)(x->rows * x->parts));
    put_quantiser(f, x->dim, x->parts, x->width, x->last, x->centroid);
    if (!x->norms) return;
    put(f, x->norm, (size_t)x->rows);
    put_quantiser(f, 1, 1, 1, 1, x->norm_centroid);
}

static inline void put_fake(FakeFile *f, const Fake *k)
{
    f->bytes = 0;
    const int argument[14] = { 793712314, 12, k->dim, 5, 5, 1, 5, k->word_ngram, k->loss, 3, k->bucket, k->minn, k->maxn, 100 };
    for (int i = 0; i < 14; i++) put_int(f, argument[i]);
    put(f, &(double){ 1e-4 }, 8);
    put_int(f, k->words + k->labels), put_int(f, k->words), put_int(f, k->labels);
    put_long(f, 1000), put_long(f, k->kept);
    for (int i = 0; i < k->words + k->labels; i++) {
        put(f, k->word[i], strlen(k->word[i]) + 1);
        put_long(f, k->count[i]);
        put_byte(f, i >= k->words);
    }
    for (int i = 0; i < k->kept; i++) put_int(f, k->from[i]), put_int(f, i);
    put_byte(f, k->input.quantised);
    put_matrix(f, &k->input);
    put_byte(f, k->output.quantised);
    put_matrix(f, &k->output);
}

/* Words and five labels; the properties are the numbers that the caller has set, and a seed */
static inline void fake_fill(Fake *k, uint32_t seed, bool quantised, bool output, bool norms)
{
    static const char *const word[] = { "</s>", "och", "det", "\xC3\xA5r", "en_ganska_l\xC3\xA5ng_sammans\xC3\xA4ttning", "x",
                                        "__label__sv", "__label__no", "__label__da", "__label__en", "__label__fi" };
    k->words = 6, k->labels = 5;
    for (int i = 0; i < 11; i++) {
        k->word[i]  = word[i];
        k->count[i] = i < 6 ? 10 : (int64_t[]){ 50, 40, 12, 9, 5 }[i - 6];
    }
    for (int i = 0; i < k->kept; i++) k->from[i] = i * 3 % k->bucket;
    matrix_fill(&k->input, &seed, k->words + (k->kept < 0 ? k->bucket : k->kept), k->dim, quantised, norms, 3);
    matrix_fill(&k->output, &seed, k->labels, k->dim, quantised && output, norms, 2);
}

static inline void fake_write(const char *path, const void *data, size_t bytes)
{
    unlink(path);                                /* truncating and rewriting a file is slow on some disks */
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}
#endif
