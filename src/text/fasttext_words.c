#include "text/fasttext_words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TABLE_BYTES = 16 << 20, LINE = 64 };

#define X16 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
static const uint8_t ones[64] = { X16, X16 };

/* ---- rows ---- */

void fasttext_rows_add(FasttextRows *r, float *sum, const FasttextModel *m)
{
    for (int32_t i = 0; i < r->count; i++) fasttext_row_add(sum, &m->input, r->row[i]);
    r->count = 0;
}

static void row_meet(FasttextRows *r, float *sum, const FasttextModel *m, int64_t row)
{
    const FasttextMatrix *x = &m->input;
    if (r->count == FASTTEXT_WAIT) fasttext_rows_add(r, sum, m);
    const uint8_t *at = x->dense ? x->dense + row * x->dim * 4 : x->code + row * x->parts;
    __builtin_prefetch(at);
    if (x->dense) __builtin_prefetch(at + LINE - 1);             /* rows lie at any address */
    r->row[r->count++] = row;
}

int32_t fasttext_gram_meet(FasttextRows *r, float *sum, const FasttextModel *m, uint64_t hash)
{
    int32_t bucket = (int32_t)(hash % (uint64_t)m->bucket);
    if (m->pruned) bucket = fasttext_kept_find(m, bucket);
    if (bucket < 0) return 0;
    row_meet(r, sum, m, m->words + (int64_t)bucket);
    return 1;
}

/* ---- a word that is met for the first time ---- */

static bool is_inside(uint8_t byte) { return (byte & 0xC0) == 0x80; }            /* of a character of several bytes */

/* <word>, whose end is place `bytes` */
static uint8_t byte_at(const uint8_t *text, int64_t bytes, int64_t at) { return at < 0 ? '<' : at == bytes ? '>' : text[at]; }

/* The n-grams of <word> that begin at a character; a bare < or > is none */
static int32_t subwords_from(FasttextRows *r, float *sum, const FasttextModel *m, const uint8_t *text, int64_t bytes, int64_t from)
{
    uint32_t hash = FASTTEXT_HASH;
    int32_t  rows = 0;
    int64_t  at = from;
    for (int32_t n = 1; at <= bytes && n <= m->gram_most; n++) {
        hash = fasttext_hash_step(hash, byte_at(text, bytes, at++));
        for (; at < bytes && is_inside(text[at]); at++) hash = fasttext_hash_step(hash, text[at]);
        if (n >= m->gram_least && !(n == 1 && (from < 0 || at > bytes))) rows += fasttext_gram_meet(r, sum, m, hash);
    }
    return rows;
}

static int32_t subwords(FasttextRows *r, float *sum, const FasttextModel *m, const uint8_t *text, int64_t bytes)
{
    int32_t rows = 0;
    for (int64_t from = -1; m->gram_most && from <= bytes; from++)
        if (from < 0 || from == bytes || !is_inside(text[from])) rows += subwords_from(r, sum, m, text, bytes, from);
    return rows;
}

static bool is_label(const FasttextModel *m, int32_t id, const uint8_t *text, int64_t bytes)
{
    return id < 0 ? bytes >= 9 && !memcmp(text, "__label__", 9) : m->word[id].label;
}

static void sum_make(FasttextSum *s, const FasttextModel *m, const uint8_t *text, int64_t bytes, bool end)
{
    FasttextRows rows = { 0 };
    s->hash = FASTTEXT_HASH;
    for (int64_t i = 0; i < bytes; i++) s->hash = fasttext_hash_step(s->hash, text[i]);
    int32_t id = fasttext_word_find(m, text, bytes, s->hash);
    s->rows = is_label(m, id, text, bytes) ? FASTTEXT_LABEL_ROWS : 0;
    memset(s->sum, 0, (size_t)fasttext_lanes(m) * sizeof *s->sum);
    if (s->rows) return;
    if (id >= 0) row_meet(&rows, s->sum, m, id);
    s->rows = (id >= 0) + (end ? 0 : subwords(&rows, s->sum, m, text, bytes));
    fasttext_rows_add(&rows, s->sum, m);
}

void fasttext_end_sum(FasttextSum *s, const FasttextModel *m) { sum_make(s, m, (const uint8_t *)"</s>", 4, true); }

/* ---- the table ---- */

FasttextKey fasttext_key(const uint8_t *text, int64_t bytes)
{
    FasttextKey key, mask;
    memcpy(&key, text, sizeof key);
    memcpy(&mask, ones + 32 - bytes, sizeof mask);
    for (int i = 0; i < 4; i++) key.part[i] &= mask.part[i];
    key.part[3] |= (uint64_t)bytes << 56;
    return key;
}

static bool same(FasttextKey a, FasttextKey b)
{
    return !((a.part[0] ^ b.part[0]) | (a.part[1] ^ b.part[1]) | (a.part[2] ^ b.part[2]) | (a.part[3] ^ b.part[3]));
}

const FasttextSum *fasttext_sum(FasttextWords *w, FasttextSum *set, FasttextKey key, const uint8_t *text, int64_t bytes)
{
    FasttextSum *second = set ? (FasttextSum *)(void *)((uint8_t *)set + w->stride) : NULL;
    if (set && same(set->key, key))    return set;
    if (set && same(second->key, key)) return second;
    if (bytes == 4 && !memcmp(text, "</s>", 4)) return NULL;
    if (!set) {
        sum_make(w->longer, w->model, text, bytes, false);
        return w->longer;
    }
    memcpy(second, set, w->stride);
    sum_make(set, w->model, text, bytes, false);
    set->key = key;
    return set;
}

Status fasttext_words_open(FasttextWords *w, const FasttextModel *m)
{
    size_t bytes = sizeof(FasttextSum) + (size_t)fasttext_lanes(m) * sizeof(float);
    *w = (FasttextWords){ .model = m, .stride = (bytes + LINE - 1) / LINE * LINE, .shift = 64 };
    for (size_t sets = 1; 2 * sets * 2 * w->stride <= TABLE_BYTES; sets *= 2) w->shift--;
    size_t table = ((size_t)1 << (64 - w->shift)) * 2 * w->stride;
    w->table  = aligned_alloc(LINE, table);
    w->longer = malloc(w->stride);
    if (!w->table || !w->longer) {
        fasttext_words_close(w);
        return fail(NO_MEMORY, "no memory for %zu bytes of words", table);
    }
    madvise(w->table, table, MADV_HUGEPAGE);
    memset(w->table, 0, table);                  /* zeros are no word: each has a length */
    return OK;
}

void fasttext_words_close(FasttextWords *w)
{
    free(w->table);
    free(w->longer);
    *w = (FasttextWords){ 0 };
}
