/* The cache of word vectors: its table, and what is computed when a word is seen for the first time, the rows
 * of the word and of its character n-grams (Dictionary::computeSubwords of fastText). */
#include "text/fasttext/fasttext_words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TABLE_BYTES = 32 << 20, LINE = 64 };

#define X8 255, 255, 255, 255, 255, 255, 255, 255
const uint8_t fasttext_key_mask[48] = { X8, X8, X8 };

/* ---- rows ---- */

void fasttext_queue_flush(FasttextRowQueue *r, float *sum, const FasttextModel *m)
{
    fasttext_rows_sum(sum, &m->input, r->row, r->count);
    r->count = 0;
}

static void row_queue(FasttextRowQueue *r, float *sum, const FasttextModel *m, int64_t row)
{
    const FasttextMatrix *x = &m->input;
    if (r->count == FASTTEXT_QUEUE_ROWS) fasttext_queue_flush(r, sum, m);
    const uint8_t *at = x->dense ? x->dense + row * x->dim * 4 : x->code + row * x->parts;
    __builtin_prefetch(at);
    if (x->dense) __builtin_prefetch(at + LINE - 1);             /* a row may span two cache lines */
    r->row[r->count++] = row;
}

int32_t fasttext_ngram_add(FasttextRowQueue *r, float *sum, const FasttextModel *m, uint64_t hash)
{
    int32_t bucket = (int32_t)(hash % (uint64_t)m->bucket);
    if (m->pruned) bucket = fasttext_bucket_find(m, bucket);
    if (bucket < 0) return 0;
    row_queue(r, sum, m, m->words + (int64_t)bucket);
    return 1;
}

/* ---- a word that is not in the cache ---- */

/* of a UTF-8 character */
static bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* fastText encloses a word in < and >: byte -1 is <, byte `bytes` is >. */
static uint8_t padded_byte(const uint8_t *text, int64_t bytes, int64_t at)
{
    return at < 0 ? '<' : at == bytes ? '>' : text[at];
}

/* Queues the n-grams of <word> that begin at a character, except < and > alone, and returns the number of
 * rows. */
static int32_t subwords_at(FasttextRowQueue *r, float *sum, const FasttextModel *m, const uint8_t *text,
                           int64_t bytes, int64_t from)
{
    uint32_t hash = FASTTEXT_HASH_START;
    int32_t  rows = 0;
    int64_t  at = from;
    for (int32_t n = 1; at <= bytes && n <= m->ngram_max; n++) {
        hash = fasttext_hash_step(hash, padded_byte(text, bytes, at++));
        for (; at < bytes && is_continuation(text[at]); at++) hash = fasttext_hash_step(hash, text[at]);
        if (n >= m->ngram_min && !(n == 1 && (from < 0 || at > bytes)))
            rows += fasttext_ngram_add(r, sum, m, hash);
    }
    return rows;
}

static int32_t subwords(FasttextRowQueue *r, float *sum, const FasttextModel *m, const uint8_t *text,
                        int64_t bytes)
{
    int32_t rows = 0;
    for (int64_t from = -1; m->ngram_max && from <= bytes; from++)
        if (from < 0 || from == bytes || !is_continuation(text[from]))
            rows += subwords_at(r, sum, m, text, bytes, from);
    return rows;
}

/* As in fastText, an unknown word with the prefix of labels is a label too. */
static bool is_label(const FasttextModel *m, int32_t id, const uint8_t *text, int64_t bytes)
{
    return id < 0 ? bytes >= 9 && !memcmp(text, "__label__", 9) : m->word[id].label;
}

/* Computes the sum of a word into the first entry of a set. end: the word is </s>, which has no subwords. */
static void word_sum(FasttextSet *set, const FasttextModel *m, const uint8_t *text, int64_t bytes, bool end)
{
    FasttextRowQueue rows;
    rows.count = 0;                              /* the rows themselves need no initialization */
    uint32_t hash = fasttext_hash(text, bytes);
    int32_t id = fasttext_word_find(m, text, bytes, hash);
    set->entry[0] = (FasttextWordSum){ .rows = FASTTEXT_LABEL_ROWS, .hash = hash };
    memset(set->sum, 0, (size_t)fasttext_lanes(m) * sizeof *set->sum);
    if (is_label(m, id, text, bytes)) return;
    if (id >= 0) row_queue(&rows, set->sum, m, id);
    set->entry[0].rows = (id >= 0) + (end ? 0 : subwords(&rows, set->sum, m, text, bytes));
    fasttext_queue_flush(&rows, set->sum, m);
}

void fasttext_end_sum(FasttextSet *set, const FasttextModel *m)
{
    word_sum(set, m, (const uint8_t *)"</s>", 4, true);
}

int fasttext_set_insert(FasttextWords *w, FasttextSet *set, FasttextKey key, const uint8_t *text,
                        int64_t bytes)
{
    int32_t lanes = fasttext_lanes(w->model);
    if (bytes == 4 && !memcmp(text, "</s>", 4)) return -1;
    set->entry[1] = set->entry[0];
    memcpy(set->sum + lanes, set->sum, (size_t)lanes * sizeof *set->sum);
    word_sum(set, w->model, text, bytes, false);
    if (set != w->longer) set->entry[0].key = key;
    return 0;
}

/* ---- the table ---- */

/* A table of zeros is an empty one, because every key has a length. Large pages are requested before the
 * first access, since random accesses would otherwise miss the TLB as well. */
Status fasttext_words_open(FasttextWords *w, const FasttextModel *m)
{
    *w = (FasttextWords){ .model = m,
                          .stride = sizeof(FasttextSet) + 2 * (size_t)fasttext_lanes(m) * sizeof(float),
                          .shift = 63 };
    while (((size_t)2 << (64 - w->shift)) * w->stride <= TABLE_BYTES) w->shift--;
    w->bytes = ((size_t)1 << (64 - w->shift)) * w->stride;
    void *table = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w->table  = table == MAP_FAILED ? NULL : table;
    w->longer = calloc(1, w->stride);
    if (!w->table || !w->longer) {
        fasttext_words_close(w);
        return fail(NO_MEMORY, "no memory for %zu bytes of words", w->bytes);
    }
    madvise(w->table, w->bytes, MADV_HUGEPAGE);
    return OK;
}

void fasttext_words_close(FasttextWords *w)
{
    if (w->table) munmap(w->table, w->bytes);
    free(w->longer);
    *w = (FasttextWords){ 0 };
}
