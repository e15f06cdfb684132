/* Exact deduplication by hash partitioning: hashes go to partitions of a spill by their first bits, so
 * equal hashes meet in one partition, and each partition is resolved alone with a hash table that fits
 * into memory. Partitions are independent, hence the result does not depend on threads. */
#include "corpus/dedup/exact.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/array.h"
#include "base/words.h"
#include "corpus/dedup/spill.h"
#include "text/unicode.h"

/* ---- normalizations ---- */

static const ExactNormalization normalizations[] = {
    { "none",   false, false, false },      /* byte by byte */
    { "spaces", false, false, true  },      /* any run of white space is one blank, none at the ends */
    { "words",  true,  false, false },      /* lower case after NFC; spaces and punctuation count nothing */
    { "digits", true,  true,  false },      /* as words, and each digit is a 0 */
};

const ExactNormalization *exact_normalization_find(const char *name)
{
    for (int i = 0; i < COUNT(normalizations); i++)
        if (!strcmp(normalizations[i].name, name)) return &normalizations[i];
    return NULL;
}

static Hash128 hash_bytes(const void *data, int64_t bytes)
{
    XXH128_hash_t h = XXH3_128bits(data, (size_t)bytes);
    return (Hash128){ h.low64, h.high64 };
}

/* One hash per word of the document; the hash of their sequence identifies the text up to spaces and
 * punctuation. */
static Status hash_words(ExactSpace *space, Chars chars, bool digits)
{
    Shingles *words = &space->words;
    WordWalk  walk  = { .text = (const char *)chars.text, .bytes = chars.bytes, .digits = digits };
    WordSpan  word;
    words->count = 0;
    while (word_next(&walk, &word)) {
        TRY(ARRAY_RESERVE(words->hash, words->capacity, words->count + 1));
        words->hash[words->count++] = word.hash;
    }
    return OK;
}

/* The character at p if it is white space, else one byte of a character. Above ASCII all white space
 * begins with C2 or E1 to E3, so other characters are not decoded. */
static inline Rune space_or_byte(const uint8_t *p, int64_t left)
{
    if (*p == 0xC2 || (*p >= 0xE1 && *p <= 0xE3)) {
        Rune r = rune_wide(p, left);
        if (r.kind & SPACE) return r;
    }
    return (Rune){ *p, 1, *p < 0x80 ? unicode_row[0][*p] : 0 };
}

/* Each run of white space becomes one blank, and none is left at the ends; done in one pass into the
 * buffer. */
static Status collapse_spaces(ExactSpace *space, Chars *chars)
{
    NormalizerBuffer *buffer = &space->text.text[0];
    TRY(ARRAY_RESERVE(buffer->data, buffer->capacity, chars->bytes));
    uint8_t *out = buffer->data;
    int64_t  wrote = 0;
    for (int64_t at = 0; at < chars->bytes; ) {
        Rune r = space_or_byte(chars->text + at, chars->bytes - at);
        if (r.kind & SPACE) {
            if (wrote && out[wrote - 1] != ' ') out[wrote++] = ' ';
        } else {
            out[wrote++] = chars->text[at];
        }
        at += r.bytes;
    }
    if (wrote && out[wrote - 1] == ' ') wrote--;
    *chars = (Chars){ out, wrote, 0 };
    return OK;
}

Status exact_hash(Hash128 *hash, const ExactNormalization *n, ExactSpace *space, const char *text,
                  int64_t bytes)
{
    static const Normalizer nfc = { .step = { { .kind = NORMALIZER_NFC } }, .steps = 1 };
    Chars chars = { (const uint8_t *)text, bytes, 0 };
    *hash = (Hash128){ 0 };
    if (n->spaces) TRY(collapse_spaces(space, &chars));
    if (n->words) {
        TRY(normalizer_apply(&nfc, &chars, &space->text));
        TRY(hash_words(space, chars, n->digits));
        if (space->words.count) {
            *hash = hash_bytes(space->words.hash, space->words.count * (int64_t)sizeof *space->words.hash);
            return OK;
        }
        chars.bytes = 0;
    }
    *hash = chars.bytes ? hash_bytes(chars.text, chars.bytes) : hash_bytes(text, bytes);
    return OK;
}

void exact_space_free(ExactSpace *space)
{
    shingles_free(&space->words);
    normalizer_buffers_close(&space->text);
    *space = (ExactSpace){ 0 };
}

/* ---- parts of a document ---- */

static bool is_blank(const char *text, int64_t from, int64_t end)
{
    return has_only(text + from, end - from, " \t\r");
}

static bool next_line(ExactWalk *w, int64_t *from, int64_t *end)
{
    if (w->at >= w->bytes) return false;
    const char *found = memchr(w->text + w->at, '\n', (size_t)(w->bytes - w->at));
    *from = w->at;
    *end  = found ? found - w->text : w->bytes;
    w->at = *end + 1;
    return true;
}

/* A paragraph ends before a blank line: the walk looks one line ahead and takes it only if it is not
 * blank. */
bool exact_part(ExactWalk *w, const char **text, int64_t *bytes)
{
    int64_t from = 0, end, last, next;
    if (w->unit == EXACT_DOCUMENTS) {
        bool first = w->at == 0;
        w->at  = w->bytes + 1;
        *text  = w->text;
        *bytes = w->bytes;
        return first;
    }
    do
        if (!next_line(w, &from, &end)) return false;
    while (is_blank(w->text, from, end));
    for (ExactWalk ahead = *w;
         w->unit == EXACT_PARAGRAPHS && next_line(&ahead, &last, &next) &&
         !is_blank(w->text, last, next); )
        end = next, *w = ahead;
    if (end > from && w->text[end - 1] == '\r') end--;
    *text  = w->text + from;
    *bytes = end - from;
    return true;
}

/* ---- deduplication ---- */

struct Exact {
    ExactPlan        plan;
    Spill           *spill;
    int64_t          count;         /* items added */
    _Atomic(uint64_t) *removed_bits;               /* one bit per item; set by several threads */
    uint32_t        *keeper;        /* [count] first equal item; NULL without plan.keepers */
};

typedef struct { uint64_t low, high, number; } WideHash;
typedef struct { uint64_t low, number; } NarrowHash;

Status exact_open(Exact **out, const ExactPlan *plan)
{
    *out = NULL;
    Exact *e = calloc(1, sizeof *e);
    if (!e) return fail(NO_MEMORY, "no memory for exact duplicates");
    e->plan = *plan;
    Status status = spill_open(&e->spill, "hashes of exact duplicates", plan->folder,
                               plan->narrow ? sizeof(NarrowHash) : sizeof(WideHash),
                               SPILL_PARTITIONS, plan->memory);
    if (status == OK) *out = e;
    else              exact_close(e);
    return status;
}

/* The partition is the first 10 bits of the low half, the only one that narrow records keep. */
Status exact_add(Exact *e, Hash128 hash)
{
    WideHash   wide   = { hash.low, hash.high, (uint64_t)e->count };
    NarrowHash narrow = { hash.low, (uint64_t)e->count };
    if (e->plan.keepers && e->count >= UINT32_MAX - 1)
        return fail(BAD_OPTION, "more than %u documents: clusters of exact duplicates cannot be recorded for"
                    " more; split the corpus", UINT32_MAX - 1);
    e->count++;
    return spill_add(e->spill, (int)(hash.low >> 54), e->plan.narrow ? (void *)&narrow : (void *)&wide);
}

/* Each partition is one job of the team, with a hash table of its own. */
typedef struct {
    Exact    *exact;
    int       partition;
    WideHash *record;       /* [records], owned by the job while it runs */
    uint32_t *slot;         /* hash table: index in record, plus 1; 0: free */
    Failure   failure;
} ExactJob;

/* Relaxed order is enough: neighbouring bits are set by other partitions, and results are read after
 * team_for, which synchronizes. */
static void remove_item(Exact *e, uint64_t number, uint64_t first)
{
    atomic_fetch_or_explicit(&e->removed_bits[number / 64], (uint64_t)1 << number % 64, memory_order_relaxed);
    if (e->keeper) e->keeper[number] = (uint32_t)first;
}

/* Narrow records are read into the end of the array and widened from its beginning; the write position
 * never passes the read position, so one array is enough. */
static Status records_read(ExactJob *job, int64_t count)
{
    const Exact *e = job->exact;
    if (!e->plan.narrow) return spill_read(e->spill, job->partition, job->record);
    NarrowHash *narrow = (NarrowHash *)(void *)((char *)(job->record + count) -
                                                (size_t)count * sizeof *narrow);
    TRY(spill_read(e->spill, job->partition, narrow));
    for (int64_t i = 0; i < count; i++) {
        NarrowHash one = narrow[i];
        job->record[i] = (WideHash){ .low = one.low, .number = one.number };
    }
    return OK;
}

/* A hash table with open addressing and linear probing, at most half full. Records come in the order of
 * items, so the first of equal ones keeps its slot. */
static Status partition_resolve(ExactJob *job)
{
    int64_t  count = spill_count(job->exact->spill, job->partition);
    uint64_t slots = 16;
    while (slots < (uint64_t)count * 2) slots *= 2;
    job->record = malloc((size_t)(count + 1) * sizeof *job->record);
    job->slot  = calloc(slots, sizeof *job->slot);
    if (!job->record || !job->slot || count >= UINT32_MAX)
        return fail(NO_MEMORY, "no memory to deduplicate %" PRId64 " hashes; they take 32 bytes each", count);
    TRY(records_read(job, count));
    for (int64_t i = 0; i < count; i++) {
        const WideHash *record = &job->record[i], *first = NULL;
        uint64_t at = record->low & (slots - 1);
        while (job->slot[at]) {
            first = &job->record[job->slot[at] - 1];
            if (first->low == record->low && first->high == record->high) break;
            at = (at + 1) & (slots - 1);
        }
        if (job->slot[at]) remove_item(job->exact, record->number, first->number);
        else               job->slot[at] = (uint32_t)(i + 1);
    }
    return OK;
}

static void resolve_body(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        ExactJob *job = (ExactJob *)context + i;
        failure_keep(&job->failure, partition_resolve(job));
        free(job->record);
        free(job->slot);
        spill_drop(job->exact->spill, job->partition);
    }
}

static Status results_open(Exact *e)
{
    e->removed_bits = calloc((size_t)e->count / 64 + 1, sizeof *e->removed_bits);
    if (e->plan.keepers) e->keeper = malloc((size_t)(e->count + 1) * sizeof *e->keeper);
    if (!e->removed_bits || (e->plan.keepers && !e->keeper))
        return fail(NO_MEMORY, "no memory to mark the duplicates among %" PRId64 " documents or lines",
                    e->count);
    for (int64_t i = 0; e->keeper && i < e->count; i++) e->keeper[i] = (uint32_t)i;
    return OK;
}

/* The first failed partition decides the message, so that it is the same in every run. */
Status exact_resolve(Exact *e, Team *team)
{
    TRY(results_open(e));
    ExactJob *job = calloc(SPILL_PARTITIONS, sizeof *job);
    if (!job) return fail(NO_MEMORY, "no memory to resolve exact duplicates");
    for (int i = 0; i < SPILL_PARTITIONS; i++) job[i].exact = e, job[i].partition = i;
    team_for(team, SPILL_PARTITIONS, 1, resolve_body, job);
    Status status = OK;
    for (int i = 0; i < SPILL_PARTITIONS && status == OK; i++)
        status = failure_report(&job[i].failure);
    free(job);
    spill_close(e->spill);
    e->spill = NULL;
    return status;
}

bool exact_removed(const Exact *e, int64_t number)
{
    return atomic_load_explicit(&e->removed_bits[number / 64], memory_order_relaxed) >> number % 64 & 1;
}

int64_t exact_keeper(const Exact *e, int64_t number)
{
    CHECK(e->keeper, "exact_keeper needs a plan with keepers");
    return e->keeper[number];
}

void exact_close(Exact *e)
{
    if (!e) return;
    spill_close(e->spill);
    free(e->removed_bits);
    free(e->keeper);
    free(e);
}
