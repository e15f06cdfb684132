/* Classifies a text: splits it into words, sums their vectors and word n-grams, and passes the mean to the
 * loss. A word costs a cache miss in a large table, so words are queued while their sets are prefetched. */
#include "text/fasttext/langid.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "text/fasttext/fasttext_loss.h"
#include "text/fasttext/fasttext_words.h"

enum { BLOCK_BYTES = 64, PREFETCH_WORDS = 32 };
static const uint64_t NGRAM_FACTOR = 116049371;           /* fastText's */

struct Langid {
    FasttextModel model;
    FasttextLoss  loss;
};

/* A word of the text with its set in the cache */
typedef struct { const uint8_t *text; int64_t bytes; FasttextKey key; FasttextSet *set; } PendingWord;

struct LangidSpace {
    const FasttextModel *model;
    FasttextWords    words;
    FasttextScratch  scratch;
    FasttextSet     *end;                        /* the sum of the end of a text */
    float           *sum;                        /* [fasttext_lanes]: of the rows of the text so far */
    int64_t          rows;                       /* their number */
    FasttextRowQueue ngram_rows;                 /* queued word n-grams */
    uint64_t         ngram_hash[FASTTEXT_NGRAM_MAX];     /* n-grams that the next word extends, the oldest
                                                          * first */
    int              ngrams;                     /* their number */
    PendingWord      pending[PREFETCH_WORDS];    /* words whose sets are being prefetched */
    int              pending_count;
    bool             ended;                      /* the text contained </s> */
};

/* ---- the sum of a text ---- */

/* Adds the word n-grams that end in this word, one for each beginning among the words before it. */
static void word_ngrams_add(LangidSpace *s, uint32_t hash)
{
    uint64_t word = (uint64_t)(int64_t)(int32_t)hash;
    int      most = s->model->word_ngram - 1;
    if (most == 0) return;
    for (int i = 0; i < s->ngrams; i++) {
        s->ngram_hash[i] = s->ngram_hash[i] * NGRAM_FACTOR + word;
        s->rows += fasttext_ngram_add(&s->ngram_rows, s->sum, s->model, s->ngram_hash[i]);
    }
    if (s->ngrams == most)
        memmove(s->ngram_hash, s->ngram_hash + 1, (size_t)--s->ngrams * sizeof *s->ngram_hash);
    s->ngram_hash[s->ngrams++] = word;
}

static void word_sum_add(LangidSpace *s, const FasttextSet *set, int place)
{
    const FasttextWordSum *entry = &set->entry[place];
    int32_t lanes = fasttext_lanes(s->model);
    if (entry->rows == FASTTEXT_LABEL_ROWS) return;
    for (int32_t d = 0; d < lanes; d += 16) fasttext_add_16(s->sum + d, set->sum + place * lanes + d);
    s->rows += entry->rows;
    word_ngrams_add(s, entry->hash);
}

/* The entry of the word in its set; -1: it is not cached */
static int pending_index(const PendingWord *pending)
{
    return fasttext_key_equal(pending->set->entry[0].key, pending->key) ? 0
        : fasttext_key_equal(pending->set->entry[1].key, pending->key) ? 1 : -1;
}

/* Adds the queued words. For those not in the cache the model's hash slots are prefetched first, all
 * together. */
static void pending_flush(LangidSpace *s)
{
    for (int i = 0; i < s->pending_count; i++)
        if (pending_index(&s->pending[i]) < 0)
            fasttext_word_prefetch(s->model, fasttext_hash(s->pending[i].text, s->pending[i].bytes));
    for (int i = 0; i < s->pending_count && !s->ended; i++) {
        PendingWord *pending = &s->pending[i];
        int  place = pending_index(pending);
        if (place < 0)
            place = fasttext_set_insert(&s->words, pending->set, pending->key, pending->text, pending->bytes);
        s->ended = place < 0;
        if (place >= 0) word_sum_add(s, pending->set, place);
    }
    s->pending_count = 0;
}

/* Queues the word from .. to. stop: the end of the text, after which no byte may be read */
static void word_queue(LangidSpace *s, const uint8_t *from, const uint8_t *to, const uint8_t *stop)
{
    static const FasttextKey none = { { 0, 0, UINT64_MAX } };       /* a key of no word */
    uint8_t padded[sizeof(FasttextKey)] = { 0 };
    PendingWord *pending = &s->pending[s->pending_count++];
    pending->text  = from;
    pending->bytes = to - from;
    if (pending->bytes > FASTTEXT_KEY_BYTES_MAX) {
        pending->key = none;
        pending->set = s->words.longer;
    } else {
        bool last = stop - from < (int64_t)sizeof padded;
        if (last) memcpy(padded, from, (size_t)pending->bytes);
        pending->key = fasttext_key(last ? padded : from, pending->bytes);
        pending->set = fasttext_set(&s->words, pending->key);
        __builtin_prefetch(pending->set);
        __builtin_prefetch(pending->set->sum);
        __builtin_prefetch(pending->set->sum + 16);
    }
    if (s->pending_count == PREFETCH_WORDS) pending_flush(s);
}

/* ---- a text split into words ---- */

/* A mask of fastText's white space in 64 bytes: zero, space, and tab to carriage return */
static uint64_t blanks_of(const uint8_t *text)
{
    uint64_t blanks = 0;
#ifdef __SSE2__
    for (int i = 0; i < BLOCK_BYTES; i += 16) {
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(text + i));
        __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(_mm_sub_epi8(c, _mm_set1_epi8('\t')),
                                                       _mm_set1_epi8(4)),
                                          _mm_sub_epi8(c, _mm_set1_epi8('\t')));
        __m128i others = _mm_or_si128(_mm_cmpeq_epi8(c, _mm_set1_epi8(' ')),
                                      _mm_cmpeq_epi8(c, _mm_setzero_si128()));
        blanks |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_or_si128(controls, others)) << i;
    }
#else
    for (int i = 0; i < BLOCK_BYTES; i++)
        blanks |= (uint64_t)(text[i] == ' ' || text[i] == 0 || (text[i] >= '\t' && text[i] <= '\r')) << i;
#endif
    return blanks;
}

/* Finds words as runs between changes of the white space mask, with one step per change and not per byte. */
static void text_split(LangidSpace *s, const uint8_t *text, int64_t bytes)
{
    const uint8_t *stop = text + bytes, *from = NULL;               /* from: the beginning of the current
                                                                     * word; NULL: in white space */
    uint8_t  rest[BLOCK_BYTES] = { 0 };
    uint64_t was_blank = 1;  /* bit 0: the byte before the block is white space */
    for (int64_t at = 0; at < bytes && !s->ended; at += BLOCK_BYTES) {
        bool whole = bytes - at >= BLOCK_BYTES;
        if (!whole) memcpy(rest, text + at, (size_t)(bytes - at));
        uint64_t blanks = blanks_of(whole ? text + at : rest), changes = blanks ^ (blanks << 1 | was_blank);
        was_blank = blanks >> 63;
        for (; changes; changes &= changes - 1) {
            const uint8_t *here = text + at + __builtin_ctzll(changes);
            if (from) word_queue(s, from, here, stop);
            from = from ? NULL : here;
        }
    }
    if (from && !s->ended) word_queue(s, from, stop, stop);
    pending_flush(s);
}

/* ---- a guess ---- */

int langid_guess(const Langid *l, LangidSpace *s, const char *text, int64_t bytes, LangidGuess *guess,
                 int most)
{
    const FasttextModel *m = &l->model;
    memset(s->sum, 0, (size_t)fasttext_lanes(m) * sizeof *s->sum);
    s->rows   = 0;
    s->ngrams = s->pending_count = 0;
    s->ended  = false;
    text_split(s, (const uint8_t *)text, bytes);
    word_sum_add(s, s->end, 0);
    fasttext_queue_flush(&s->ngram_rows, s->sum, m);
    if (s->rows == 0) return 0;
    float part = (float)(1.0 / (double)s->rows);
    for (int32_t d = 0; d < m->dim; d++) s->sum[d] *= part;
    return fasttext_loss_guess(&l->loss, &s->scratch, guess, most, s->sum);
}

/* ---- opening ---- */

Status langid_open(Langid **langid, const char *path)
{
    *langid = NULL;
    Langid *l = calloc(1, sizeof *l);
    if (!l) return fail(NO_MEMORY, "%s: no memory for a model", path);
    Status status = fasttext_model_open(&l->model, path);
    if (status == OK) status = fasttext_loss_open(&l->loss, &l->model);
    if (status == OK) *langid = l;
    else              langid_close(l);
    return status;
}

void langid_close(Langid *l)
{
    if (!l) return;
    fasttext_loss_close(&l->loss);
    fasttext_model_close(&l->model);
    free(l);
}

int         langid_labels(const Langid *l)           { return l->model.labels; }
const char *langid_label (const Langid *l, int label) { return l->model.word[l->model.words + label].text; }

Status langid_space_open(LangidSpace **space, const Langid *l)
{
    *space = NULL;
    LangidSpace *s = calloc(1, sizeof *s);
    if (!s) return fail(NO_MEMORY, "no memory to guess languages");
    s->model = &l->model;
    Status status = fasttext_words_open(&s->words, s->model);
    if (status == OK) status = fasttext_scratch_open(&s->scratch, &l->loss);
    if (status == OK) s->end = malloc(s->words.stride);
    if (status == OK) s->sum = malloc((size_t)fasttext_lanes(s->model) * sizeof *s->sum);
    if (status == OK && !(s->end && s->sum)) status = fail(NO_MEMORY, "no memory to guess languages");
    if (status == OK) {
        fasttext_end_sum(s->end, s->model);
        *space = s;
    } else {
        langid_space_close(s);
    }
    return status;
}

void langid_space_close(LangidSpace *s)
{
    if (!s) return;
    fasttext_words_close(&s->words);
    fasttext_scratch_close(&s->scratch);
    free(s->end);
    free(s->sum);
    free(s);
}
