/* How fast duplicates are found among documents (tests/corpus/texts.h) of which three in ten are near copies of others:
 *     bench_dedup exact|near|keys|pairs [DOCUMENTS [BYTES [THREADS [MEMORY_MIB [FOLDER]]]]]
 * exact: hash and set, by each normalization; near: shingles, signatures, keys, join, and texts asked for again to hold
 * them against each other; keys: near with made-up keys and one text for all, for numbers of documents whose texts memory
 * does not hold. The making of texts is left out. pairs: lines for vs_datasketch.py, a text and its copy: their Jaccard
 * index, whether the copy went, both texts.                                                                          */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include "corpus/dedup/exact.h"
#include "corpus/dedup/minhash.h"
#include "corpus/texts.h"

enum { COPIES_OF_TEN = 3 };

typedef struct { int64_t documents, bytes; int threads; int64_t memory; const char *folder; double cpu, wall; } Bench;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void begin(Bench *b) { b->cpu = now(CLOCK_PROCESS_CPUTIME_ID), b->wall = now(CLOCK_MONOTONIC); }

static void end(const Bench *b, const char *what, double documents, double bytes)
{
    struct rusage use;
    double cpu = now(CLOCK_PROCESS_CPUTIME_ID) - b->cpu, wall = now(CLOCK_MONOTONIC) - b->wall;
    getrusage(RUSAGE_SELF, &use);
    printf("%-28s %9.0f documents of %.0f bytes: %.2f s of CPU time, %.2f s; a core %.0f documents/s, %.1f MB/s; %.2f us a document; "
           "peak %ld MiB\n", what, documents, bytes / documents, cpu, wall, documents / cpu, 1e-6 * bytes / cpu, 1e6 * cpu / documents,
           use.ru_maxrss >> 10);
}

static void all_make(Texts *all, const Bench *b)
{
    Texts base = { 0 };
    char *copy = malloc((size_t)b->bytes * 4 + 4096);
    texts_open(&base, b->documents * (10 - COPIES_OF_TEN) / 10 + 1, b->bytes);
    for (int64_t i = 0, from = 0, bytes; i < b->documents; i++) {
        bool copied = from > 0 && random_uniform(1, (uint64_t)i) * 10 < COPIES_OF_TEN;
        if (!copied && from == base.count) copied = true;
        int64_t which = copied ? (int64_t)(random_uniform(2, (uint64_t)i) * (double)from) : from++;
        const char *text = texts_get(&base, which, &bytes);
        if (copied) texts_add(all, copy, text_change(copy, text, bytes, 0.05 * random_uniform(3, (uint64_t)i), (uint64_t)i));
        else        texts_add(all, text, bytes);
    }
    texts_free(&base);
    free(copy);
}

static Status exact_bench(Bench *b, Team *team)
{
    Texts      all = { 0 };
    Exact     *exact;
    ExactSpace space = { 0 };
    all_make(&all, b);
    static const char *const rows[] = { "none", "spaces", "words", "digits" };
    for (int row = 0; row < 4; row++) {
        char what[64];
        const ExactNormalization *n = exact_normalization_find(rows[row]);
        begin(b);
        TRY(exact_open(&exact, &(ExactPlan){ .folder = b->folder, .memory = b->memory, .keepers = true }));
        for (int64_t i = 0, bytes; i < all.count; i++) {
            Hash128     hash;
            const char *text = texts_get(&all, i, &bytes);
            TRY(exact_hash(&hash, n, &space, text, bytes));
            TRY(exact_add(exact, hash));
        }
        TRY(exact_resolve(exact, team));
        snprintf(what, sizeof what, "exact, %s", n->name);
        end(b, what, (double)all.count, (double)all.bytes);
        exact_close(exact);
    }
    exact_space_free(&space);
    texts_free(&all);
    return OK;
}

static Status read_text(void *context, int worker, int64_t document, Shingles *shingles)
{
    int64_t     bytes;
    const char *text = texts_get(context, document, &bytes);
    (void)worker;
    return shingles_of(shingles, SHINGLE_WORDS, text, bytes);
}

static MinHashPlan plan_make(const Bench *b)
{
    return (MinHashPlan){ .folder = b->folder, .memory = b->memory, .bands = MINHASH_BANDS, .rows = MINHASH_ROWS, .threshold = 0.8 };
}

static Status near_bench(Bench *b, Team *team)
{
    Texts    all = { 0 };
    Shingles shingles = { 0 };
    MinHash    *near;
    MinHashPlan plan = plan_make(b);
    uint64_t key[MINHASH_BANDS];
    all_make(&all, b);
    Bench whole = *b;
    begin(b), begin(&whole);
    TRY(minhash_open(&near, &plan));
    for (int64_t i = 0; i < all.count; i++) {
        TRY(read_text(&all, 0, i, &shingles));
        minhash_keys(near, key, &shingles);
        TRY(minhash_add(near, key));
    }
    end(b, "near, keys", (double)all.count, (double)all.bytes);
    begin(b);
    TRY(minhash_resolve(near, &(MinHashReading){ .team = team, .read = read_text, .context = &all }));
    end(b, "near, settled", (double)all.count, (double)all.bytes);
    end(&whole, "near, all", (double)all.count, (double)all.bytes);
    MinHashCounts c = minhash_counts(near);
    printf("    %" PRId64 " removed, %" PRId64 " pairs, %" PRId64 " compared, %" PRId64 " read again, %.1f MB on disk\n", c.removed, c.pairs,
           c.compared, c.read, 1e-6 * (double)c.disk);
    minhash_close(near);
    shingles_free(&shingles);
    texts_free(&all);
    return OK;
}

/* Keys as copies would have them: a copy has a third of its bands from one before. All sets are one, so copies go. */
static Status read_one(void *context, int worker, int64_t document, Shingles *shingles)
{
    (void)context, (void)worker, (void)document;
    return shingles_of(shingles, SHINGLE_WORDS, "one two three four five six", 27);
}

static Status keys_bench(Bench *b, Team *team)
{
    MinHash    *near;
    MinHashPlan plan = plan_make(b);
    uint64_t key[MINHASH_BANDS];
    begin(b);
    TRY(minhash_open(&near, &plan));
    for (int64_t i = 0; i < b->documents; i++) {
        bool copied = i && random_uniform(1, (uint64_t)i) * 10 < COPIES_OF_TEN;
        uint64_t from = copied ? (uint64_t)(random_uniform(2, (uint64_t)i) * (double)i) : (uint64_t)i;
        for (int band = 0; band < MINHASH_BANDS; band++) key[band] = random_mix(band % 3 ? (uint64_t)i : from, (uint64_t)band);
        TRY(minhash_add(near, key));
    }
    end(b, "near, keys added", (double)b->documents, (double)b->documents * 1000);
    TRY(minhash_resolve(near, &(MinHashReading){ .team = team, .read = read_one }));
    end(b, "near, keys settled", (double)b->documents, (double)b->documents * 1000);
    MinHashCounts c = minhash_counts(near);
    printf("    %" PRId64 " removed, %" PRId64 " pairs, %.1f MB on disk\n", c.removed, c.pairs, 1e-6 * (double)c.disk);
    minhash_close(near);
    return OK;
}

static void line_print(const char *text, int64_t bytes, char end)
{
    for (int64_t i = 0; i < bytes; i++) putchar(text[i] == '\n' || text[i] == '\t' ? ' ' : text[i]);
    putchar(end);
}

static Status pairs_bench(Bench *b, Team *team)
{
    Texts    all = { 0 };
    Shingles x = { 0 }, y = { 0 };
    MinHash    *near;
    MinHashPlan plan = plan_make(b);
    uint64_t key[MINHASH_BANDS];
    char    *copy = malloc((size_t)b->bytes * 4 + 4096);
    int64_t  half, other;
    texts_open(&all, b->documents, b->bytes);
    for (int64_t i = 0; i < b->documents; i++) {
        const char *text = texts_get(&all, i, &half);
        half = text_change(copy, text, half, 0.002 * exp(random_uniform(3, (uint64_t)i) * log(25)), (uint64_t)i);
        texts_add(&all, copy, half);
    }
    TRY(minhash_open(&near, &plan));
    for (int64_t i = 0; i < all.count; i++) {
        TRY(read_text(&all, 0, i, &x));
        minhash_keys(near, key, &x);
        TRY(minhash_add(near, key));
    }
    TRY(minhash_resolve(near, &(MinHashReading){ .team = team, .read = read_text, .context = &all }));
    for (int64_t i = 0, c = b->documents; i < b->documents; i++, c++) {
        TRY(read_text(&all, 0, i, &x));
        TRY(read_text(&all, 0, c, &y));
        TRY(shingles_set(&x));
        TRY(shingles_set(&y));
        const char *text = texts_get(&all, i, &half), *changed = texts_get(&all, c, &other);
        printf("%.6f\t%d\t", shingles_jaccard(&x, &y), minhash_keeper(near, c) != c);
        line_print(text, half, '\t');
        line_print(changed, other, '\n');
    }
    minhash_close(near);
    shingles_free(&x), shingles_free(&y), texts_free(&all), free(copy);
    return OK;
}

int main(int argc, char **argv)
{
    Bench b = { .documents = 100000, .bytes = 2000, .threads = 1, .memory = 1024, .folder = "/tmp" };
    Team *team;
    if (argc > 2) b.documents = strtoll(argv[2], NULL, 10);
    if (argc > 3) b.bytes     = strtoll(argv[3], NULL, 10);
    if (argc > 4) b.threads   = (int)strtol(argv[4], NULL, 10);
    if (argc > 5) b.memory    = strtoll(argv[5], NULL, 10);
    if (argc > 6) b.folder    = argv[6];
    b.memory <<= 20;
    const char *what = argc > 1 ? argv[1] : "";
    Status (*bench)(Bench *, Team *) = !strcmp(what, "exact") ? exact_bench : !strcmp(what, "near") ? near_bench :
                                       !strcmp(what, "keys") ? keys_bench : !strcmp(what, "pairs") ? pairs_bench : NULL;
    if (!bench) {
        fprintf(stderr, "bench_dedup exact|near|keys|pairs [DOCUMENTS [BYTES [THREADS [MEMORY_MIB [FOLDER]]]]]\n");
        return 2;
    }
    if (team_open(&team, b.threads) == OK && bench(&b, team) == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
