#ifndef TESTS_CORPUS_TEXTS_H
#define TESTS_CORPUS_TEXTS_H
/* Documents to find duplicates among: stretches of Swedish novels where ../shared is there, else words of a made-up
 * language whose frequencies follow Zipf's law; and copies of them with some words replaced.                        */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "corpus/read/source.h"

enum { TEXTS_WORDS = 200000 };

/* Documents back to back; the copy they are made in is as long as the longest */
typedef struct { char *text; int64_t *end; int64_t count, bytes, capacity, ends_capacity; } Texts;

__attribute__((unused)) static const char *texts_get(const Texts *t, int64_t i, int64_t *bytes)
{
    int64_t from = i ? t->end[i - 1] : 0;
    *bytes = t->end[i] - from;
    return t->text + from;
}

__attribute__((unused)) static void texts_add(Texts *t, const char *text, int64_t bytes)
{
    if (t->bytes + bytes > t->capacity) t->text = realloc(t->text, (size_t)(t->capacity = (t->bytes + bytes) * 2));
    if (t->count == t->ends_capacity) t->end = realloc(t->end, (size_t)(t->ends_capacity = t->count * 2 + 64) * sizeof *t->end);
    memcpy(t->text + t->bytes, text, (size_t)bytes);
    t->end[t->count++] = t->bytes += bytes;
}

__attribute__((unused)) static void texts_free(Texts *t)
{
    free(t->text);
    free(t->end);
    *t = (Texts){ 0 };
}

/* A word of rank `rank`, of two to five syllables; returns its bytes, at most 16 */
static int word_make(char *out, uint64_t rank)
{
    static const char *const start[] = { "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "kr" };
    static const char *const vowel[] = { "a", "e", "i", "o", "u", "\xc3\xa5", "\xc3\xa4", "\xc3\xb6" };
    uint64_t bits  = random_mix(17, rank);
    int      bytes = 0, syllables = 1 + (int)(log2((double)rank + 2) / 5);
    for (int s = 0; s < syllables; s++, bits >>= 7) bytes += sprintf(out + bytes, "%s%s", start[bits & 15], vowel[bits >> 4 & 7]);
    return bytes;
}

static int word_drawn(char *out, uint64_t key, uint64_t index)
{
    return word_make(out, (uint64_t)exp(random_uniform(key, index) * log(TEXTS_WORDS)));
}

/* About `bytes` of text number `key`; out has a capacity of bytes + 32 */
__attribute__((unused)) static int64_t text_make(char *out, uint64_t key, int64_t bytes)
{
    int64_t at = 0;
    for (uint64_t w = 0; at < bytes; w++) {
        at += word_drawn(out + at, random_mix(key, 1), w);
        if (w % 11 == 10) out[at++] = '.';
        out[at++] = w % 97 == 96 ? '\n' : ' ';
    }
    return at;
}

/* A copy with a share of the words replaced; out has a capacity of 2 * bytes + 32 */
__attribute__((unused)) static int64_t text_change(char *out, const char *text, int64_t bytes, double share, uint64_t key)
{
    int64_t wrote = 0;
    for (int64_t at = 0, end; at < bytes; at = end) {
        for (end = at; end < bytes && text[end] != ' ' && text[end] != '\n'; ) end++;
        if (end > at && random_uniform(key, (uint64_t)at) < share) {
            wrote += word_drawn(out + wrote, random_mix(key, 2), (uint64_t)at);
        } else {
            memcpy(out + wrote, text + at, (size_t)(end - at));
            wrote += end - at;
        }
        if (end < bytes) out[wrote++] = text[end++];
    }
    return wrote;
}

/* `count` stretches of about `bytes` each; returns whether they are Swedish */
__attribute__((unused)) static bool texts_open(Texts *t, int64_t count, int64_t bytes)
{
    const char *path = TESTS_DIR "/../../shared/data/eltec/sv.chapters.jsonl";
    Source  *source;
    Document d;
    bool     more = true;
    char    *made = malloc((size_t)bytes + 64);
    bool     swedish = source_open(&source, path, "text", (TextRules){ 0 }) == OK;
    while (swedish && t->count < count && source_next(source, &d, &more) == OK && more)
        for (int64_t at = 0, end; t->count < count && at + bytes < d.bytes; at = end) {
            for (end = at + bytes; end < d.bytes && d.text[end] != ' '; ) end++;
            texts_add(t, d.text + at, end - at);
        }
    if (swedish) source_close(source);
    while (t->count < count) {
        int64_t n = text_make(made, (uint64_t)t->count, bytes);
        texts_add(t, made, n);
    }
    free(made);
    return swedish;
}
#endif
