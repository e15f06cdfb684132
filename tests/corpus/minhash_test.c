/* Near-duplicates against a comparison of all pairs; recall of known pairs; equal results whatever threads and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <unistd.h>
#include "base/file.h"
#include "base/seam.h"
#include "corpus/dedup/minhash.h"
#include "corpus/dedup/minhash_internal.h"
#include "corpus/texts.h"
#include <cmocka.h>              /* after base/status.h, since it has a macro named fail */
#undef fail

static char folder[64];

typedef struct { int64_t removed, kept; double jaccard; } Removal;
typedef struct { const Texts *texts; Removal *removal; int64_t removals; int64_t *keeper; MinHashCounts counts; } Result;

static Status read_text(void *context, int worker, int64_t document, Shingles *shingles)
{
    int64_t bytes;
    (void)worker;
    const Result *r = context;
    const char   *text = texts_get(r->texts, document, &bytes);
    return shingles_of(shingles, SHINGLE_WORDS, text, bytes);
}

static void take_removed(void *context, int64_t removed, int64_t kept, double jaccard)
{
    Result *r = context;
    r->removal[r->removals++] = (Removal){ removed, kept, jaccard };
}

static MinHashPlan plan_make(int64_t memory)
{
    return (MinHashPlan){ .folder = folder, .memory = memory, .bands = MINHASH_BANDS, .rows = MINHASH_ROWS, .threshold = 0.8 };
}

static Result near_run(const Texts *t, int threads, const MinHashPlan *plan, const Exact *exact)
{
    Result   r = { .texts = t, .removal = malloc((size_t)(t->count + 1) * sizeof *r.removal), .keeper = malloc((size_t)(t->count + 1) * sizeof *r.keeper) };
    MinHash    *minhash;
    Team    *team;
    Shingles shingles = { 0 };
    uint64_t key[MINHASH_PERMUTATIONS_MOST];
    assert_int_equal(team_open(&team, threads), OK);
    assert_int_equal(minhash_open(&minhash, plan), OK);
    for (int64_t i = 0; i < t->count; i++) {
        assert_int_equal(read_text(&r, 0, i, &shingles), OK);
        assert_int_equal(minhash_keys(minhash, key, &shingles), shingles.count > 0);
        assert_int_equal(minhash_add(minhash, key), OK);
    }
    MinHashReading reading = { team, exact, read_text, take_removed, &r };
    assert_int_equal(minhash_resolve(minhash, &reading), OK);
    for (int64_t i = 0; i < t->count; i++) r.keeper[i] = minhash_keeper(minhash, i);
    r.counts = minhash_counts(minhash);
    assert_int_equal(r.removals, r.counts.removed);
    shingles_free(&shingles);
    minhash_close(minhash);
    team_close(team);
    return r;
}

static void result_free(Result *r)
{
    free(r->removal);
    free(r->keeper);
}

static Shingles *sets_make(const Texts *t)
{
    Shingles *set = calloc((size_t)t->count, sizeof *set);
    for (int64_t i = 0, bytes; i < t->count; i++) {
        const char *text = texts_get(t, i, &bytes);
        assert_int_equal(shingles_of(&set[i], SHINGLE_WORDS, text, bytes), OK);
        assert_int_equal(shingles_set(&set[i]), OK);
    }
    return set;
}

static void sets_free(Shingles *set, int64_t count)
{
    for (int64_t i = 0; i < count; i++) shingles_free(&set[i]);
    free(set);
}

/* A removed document is after the kept one, which is similar as reported; pairs in order, clusters counted. */
static void assert_sound(const Result *r, const Shingles *set, double threshold)
{
    int64_t gone = 0, clusters = 0;
    char   *clustered = calloc((size_t)r->texts->count + 1, 1);
    for (int64_t i = 0; i < r->texts->count; i++) {
        int64_t kept = r->keeper[i];
        if (kept == i) continue;
        double jaccard = shingles_jaccard(&set[i], &set[kept]);
        assert_true(kept < i);
        assert_int_equal(r->keeper[kept], kept);
        assert_true(jaccard >= threshold);
        assert_int_equal(r->removal[gone].removed, i);
        assert_int_equal(r->removal[gone].kept, kept);
        assert_true(r->removal[gone].jaccard == jaccard);
        clusters += !clustered[kept]++;
        if (clustered[kept] == 100) clustered[kept] = 1;
        gone++;
    }
    assert_int_equal(gone, r->counts.removed);
    assert_int_equal(clusters, r->counts.clusters);
    free(clustered);
}

/* Known pairs, the copy anywhere later: recall by similarity. */
static void known_pairs(void **state)
{
    (void)state;
    enum { PAIRS = 4000 };
    Texts base = { 0 }, all = { 0 };
    char *copy = malloc(1 << 16);
    bool  swedish = texts_open(&base, PAIRS, 1800);
    for (int64_t i = 0, bytes; i < 2 * PAIRS; i++) {
        const char *text = texts_get(&base, i % PAIRS, &bytes);
        double drawn = random_uniform(5, (uint64_t)i), share = i % 2 ? 0.014 + 0.012 * drawn : 0.002 * exp(drawn * log(50));
        if (i < PAIRS) texts_add(&all, text, bytes);
        else           texts_add(&all, copy, text_change(copy, text, bytes, share, (uint64_t)i));
    }
    MinHashPlan  plan = plan_make(64 << 20);
    Result    r    = near_run(&all, 2, &plan, NULL);
    Shingles *set  = sets_make(&all);
    double    pairs[3] = { 0 }, found[3] = { 0 };
    for (int64_t i = PAIRS; i < 2 * PAIRS; i++) {
        double jaccard = shingles_jaccard(&set[i - PAIRS], &set[i]);
        int    part    = jaccard < 0.8 ? 0 : jaccard < 0.85 ? 1 : 2;
        pairs[part]++;
        found[part] += r.keeper[i] != i;
    }
    print_message("%s: recall %.4f of %.0f pairs from 0.8 to 0.85, %.4f of %.0f above; %.0f below, none of them removed\n",
                  swedish ? "Swedish" : "made-up words", found[1] / pairs[1], pairs[1], found[2] / pairs[2], pairs[2], pairs[0]);
    assert_sound(&r, set, 0.8);
    assert_true(pairs[0] > 100 && pairs[1] > 500 && pairs[2] > 500);
    assert_true(found[1] >= 0.97 * pairs[1] && found[2] >= 0.99 * pairs[2]);
    assert_true(found[0] == 0);
    sets_free(set, all.count);
    result_free(&r);
    texts_free(&base), texts_free(&all), free(copy);
}

/* Copies of copies, clusters that share a boilerplate, equal texts, and some alone, one among the other */
static void mixture_make(Texts *t, int count)
{
    char *text = malloc(1 << 16), *changed = malloc(1 << 16), *stock = malloc(1 << 12);
    int64_t stock_bytes = text_make(stock, 999999, 1500);
    for (int64_t i = 0, bytes; i < count; i++) {
        int64_t kind = i % 5, family = i / 5 % 7;
        if (kind == 0 || i < 40) {
            bytes = text_make(text, (uint64_t)(i + 1000), 900);
        } else if (kind == 1) {                            /* from the one five before: it drifts away */
            const char *before = texts_get(t, i - 35, &bytes);
            bytes = text_change(text, before, bytes, 0.008, (uint64_t)i);
        } else if (kind == 2) {                            /* a stock text and a few words of the family's own */
            bytes = text_make(text, (uint64_t)(family + 50), 330);
            memcpy(text + bytes, stock, (size_t)stock_bytes);
            memcpy(changed, text, (size_t)(bytes += stock_bytes));
            bytes = text_change(text, changed, bytes, 0.003 * (double)(i % 4), (uint64_t)i);
        } else if (kind == 3) {
            bytes = text_change(text, stock, stock_bytes, 0.002 * (double)(i % 16), (uint64_t)i);
        } else {                                           /* equal to one before */
            const char *before = texts_get(t, (int64_t)(random_uniform(3, (uint64_t)i) * (double)i), &bytes);
            memcpy(text, before, (size_t)bytes);
        }
        texts_add(t, text, bytes);
    }
    free(text), free(changed), free(stock);
}

static uint64_t *keys_make(const Shingles *set, int64_t count)
{
    MinHashPlan  plan = plan_make(1 << 20);
    uint64_t *key  = malloc((size_t)count * MINHASH_BANDS * sizeof *key);
    MinHash     *minhash;
    assert_int_equal(minhash_open(&minhash, &plan), OK);
    for (int64_t i = 0; i < count; i++) minhash_keys(minhash, key + i * MINHASH_BANDS, &set[i]);
    minhash_close(minhash);
    return key;
}

static bool key_shared(const uint64_t *a, const uint64_t *b)
{
    for (int band = 0; band < MINHASH_BANDS; band++)
        if (a[band] == b[band]) return true;
    return false;
}

/* Which documents are kept if each is compared with all kept before it, with `key` only with those that have an
 * equal band; returns how many are removed. */
static int64_t greedy(bool *kept, const Shingles *set, int64_t count, const uint64_t *key)
{
    int64_t gone = 0;
    for (int64_t i = 0; i < count; i++) {
        kept[i] = true;
        for (int64_t j = 0; j < i && kept[i]; j++) {
            if (!kept[j] || (key && !key_shared(key + i * MINHASH_BANDS, key + j * MINHASH_BANDS))) continue;
            kept[i] = shingles_jaccard(&set[i], &set[j]) < 0.8;
        }
        gone += !kept[i];
    }
    return gone;
}

/* The bands miss some, and the few candidates that one gets out of a bucket hardly any more */
static void every_pair(void **state)
{
    (void)state;
    enum { COUNT = 1500 };
    Texts t = { 0 };
    mixture_make(&t, COUNT);
    Shingles *set = sets_make(&t);
    uint64_t *key = keys_make(set, COUNT);
    bool      kept[COUNT], banded[COUNT];
    int64_t   gone = greedy(kept, set, COUNT, NULL), banded_gone = greedy(banded, set, COUNT, key);
    int64_t   missed = 0, more = 0, banded_missed = 0;
    MinHashPlan  plan = plan_make(1 << 20);
    Result    r    = near_run(&t, 2, &plan, NULL);
    for (int64_t i = 0; i < COUNT; i++) {
        missed        += !kept[i] && r.keeper[i] == i;
        more          += kept[i] && r.keeper[i] != i;
        banded_missed += !banded[i] && r.keeper[i] == i;
    }
    print_message("%d documents: by every pair %ld go, by every pair in a bucket %ld, by candidates %ld: %ld and %ld of those stayed, "
                  "%ld went that had stayed; largest bucket %ld, %ld found no place\n", COUNT, (long)gone, (long)banded_gone,
                  (long)r.counts.removed, (long)missed, (long)banded_missed, (long)more, (long)r.counts.largest, (long)r.counts.unlisted);
    assert_sound(&r, set, 0.8);
    assert_true(gone > 400 && r.counts.unlisted > 10);
    assert_true(missed <= gone / 100 && more <= gone / 100 && banded_missed <= gone / 300);
    sets_free(set, COUNT);
    free(key);
    result_free(&r);
    texts_free(&t);
}

static void threads_and_memory(void **state)
{
    (void)state;
    Texts t = { 0 };
    mixture_make(&t, 3000);
    MinHashPlan roomy = plan_make(256 << 20);
    Result   one   = near_run(&t, 1, &roomy, NULL);
    for (int i = 0; i < 3; i++) {
        MinHashPlan plan = plan_make((int64_t[]){ 0, 100 << 10, 4 << 20 }[i]);
        Result   r    = near_run(&t, 1 + i, &plan, NULL);
        assert_int_equal(r.removals, one.removals);
        assert_memory_equal(r.keeper, one.keeper, (size_t)t.count * sizeof *r.keeper);
        assert_memory_equal(r.removal, one.removal, (size_t)one.removals * sizeof *r.removal);
        assert_int_equal(r.counts.pairs, one.counts.pairs);
        if (i < 2) assert_true(r.counts.disk > one.counts.disk + 100000);
        assert_int_equal(r.counts.compared, one.counts.compared);
        result_free(&r);
    }
    result_free(&one);
    texts_free(&t);
}

/* Buckets that nearly all are in: no pair of pairs, and each cluster in them is found */
static void great_buckets(void **state)
{
    (void)state;
    enum { COUNT = 30000, FAMILIES = 40 };
    Texts t = { 0 };
    char *family[FAMILIES], *text = malloc(4096);
    int64_t bytes[FAMILIES], stock = 0;
    for (int f = 0; f < FAMILIES; f++) {
        family[f] = malloc(4096);
        stock     = text_make(family[f], 7, 380);
        bytes[f]  = stock + text_make(family[f] + stock, (uint64_t)(f + 100), 130);
    }
    for (int64_t i = 0; i < COUNT; i++) {
        int f = (int)(random_uniform(9, (uint64_t)i) * FAMILIES);
        texts_add(&t, text, text_change(text, family[f], bytes[f], 0.002, (uint64_t)i));
    }
    MinHashPlan plan = plan_make(16 << 20);
    plan.bands = 4, plan.rows = 2;
    Result    r   = near_run(&t, 2, &plan, NULL);
    Shingles *set = sets_make(&t);
    int64_t missed = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        bool alike = false;
        for (int64_t j = 0; j < i && r.keeper[i] == i && !alike; j++)
            alike = r.keeper[j] == j && shingles_jaccard(&set[i], &set[j]) >= 0.8;
        missed += alike;
    }
    print_message("%d documents of %d clusters: %ld kept, of those %ld missed; %ld pairs, largest bucket %ld, %ld found no place, %ld compared\n",
                  COUNT, FAMILIES, (long)(COUNT - r.counts.removed), (long)missed, (long)r.counts.pairs, (long)r.counts.largest,
                  (long)r.counts.unlisted, (long)r.counts.compared);
    assert_sound(&r, set, 0.8);
    assert_true(r.counts.largest > COUNT / 2);
    assert_true(r.counts.pairs <= 2 * 4 * COUNT + 10);
    assert_true(missed <= COUNT / 300);             /* the bands alone miss one in 700 */
    sets_free(set, COUNT);
    for (int f = 0; f < FAMILIES; f++) free(family[f]);
    free(text);
    result_free(&r);
    texts_free(&t);
}

static void signatures_are_least_values(void **state)
{
    (void)state;
    enum { VALUES = 126 };
    static MinHashSigner sign;
    Shingles s = { 0 };
    uint32_t value[2 * MINHASH_LANES];
    minhash_signer_make(&sign);
    for (int64_t count = 0; count < 400; count = count * 2 + 1) {
        s.hash  = realloc(s.hash, (size_t)(count + 1) * sizeof *s.hash);
        s.count = count;
        for (int64_t i = 0; i < count; i++) s.hash[i] = random_mix(1, (uint64_t)i);
        minhash_sign(value, &sign, VALUES, &s);
        for (int v = 0; v < VALUES; v++) {
            uint32_t least = UINT32_MAX;
            for (int64_t i = 0; i < count; i++) {
                uint32_t x = sign.a[v] * (uint32_t)s.hash[i] + sign.b[v];
                if (x < least) least = x;
            }
            assert_int_equal(value[v], least);
        }
    }
    free(s.hash);
}

/* Short texts and removed exact duplicates take no part: they are not removed and remove nothing. */
static void short_and_gone(void **state)
{
    (void)state;
    Texts  t = { 0 };
    char   text[4096];
    Exact *exact;
    Team  *team;
    int64_t bytes = text_make(text, 1, 2000);
    texts_add(&t, "four words are few", 18), texts_add(&t, "four words are few", 18), texts_add(&t, "", 0);
    for (int i = 0; i < 3; i++) texts_add(&t, text, bytes);
    assert_int_equal(exact_open(&exact, &(ExactPlan){ .folder = folder, .memory = 1 << 20 }), OK);
    assert_int_equal(team_open(&team, 1), OK);
    for (uint64_t i = 0; i < 6; i++) assert_int_equal(exact_add(exact, (Hash128){ (uint64_t[]){ 1, 1, 2, 3, 3, 4 }[i], 0 }), OK);
    assert_int_equal(exact_resolve(exact, team), OK);
    MinHashPlan plan = plan_make(1 << 20);
    Result   r    = near_run(&t, 1, &plan, exact);
    assert_int_equal(r.counts.too_short, 3);
    assert_int_equal(r.counts.removed, 1);
    for (int64_t i = 0; i < 5; i++) assert_int_equal(r.keeper[i], i);
    assert_int_equal(r.keeper[5], 3);
    exact_close(exact);
    team_close(team);
    result_free(&r);
    texts_free(&t);
    r = near_run(&t, 1, &plan, NULL);                                  /* nothing at all */
    assert_int_equal(r.counts.removed, 0);
    result_free(&r);
}

static Status read_number(void *context, int worker, int64_t document, Shingles *shingles)
{
    char text[64];
    (void)context, (void)worker;
    return shingles_of(shingles, SHINGLE_WORDS, text, sprintf(text, "one two three four n%ld", (long)document));
}

static ssize_t write_nothing(int fd, const void *data, size_t bytes, off_t at)
{
    (void)fd, (void)data, (void)bytes, (void)at;
    errno = ENOSPC;
    return -1;
}

/* Every third document has candidates: its set is the one that is read again. A full disk is reported. */
static void sets_are_in_a_file(void **state)
{
    (void)state;
    enum { DOCUMENTS = 10001 };
    MinHash  m   = { .plan = { .folder = folder }, .counts = { .documents = DOCUMENTS } };
    Shingles one = { 0 };
    Team    *team;
    assert_int_equal(team_open(&team, 3), OK);
    m.keeper = calloc(DOCUMENTS, sizeof *m.keeper);
    MinHashReading reading = { .team = team, .read = read_number };
    for (int64_t i = 0; i < DOCUMENTS; i += 3) m.keeper[i] = 1;
    assert_int_equal(minhash_sets_open(&m, &reading), OK);
    assert_int_equal(m.counts.read, (DOCUMENTS + 2) / 3);
    for (int64_t i = 0; i < DOCUMENTS; i += 3) {
        Shingles set = minhash_set(&m, (uint32_t)i);
        assert_int_equal(read_number(NULL, 0, i, &one), OK);
        assert_int_equal(set.count, 1);
        assert_true(set.hash[0] == one.hash[0]);
    }
    minhash_sets_close(&m);
    m.sets = NULL;
    seam.write = write_nothing;
    assert_int_equal(minhash_sets_open(&m, &reading), IO_FAILED);
    assert_non_null(strstr(fail_text(), "shingles of near duplicates take"));
    seam.write = pwrite;
    shingles_free(&one);
    free(m.keeper);
    team_close(team);
}

/* In one bucket all documents are compared with all as long as none is removed. */
static void one_bucket(void **state)
{
    (void)state;
    for (int64_t count = 2; count <= 12; count++) {
        MinHash    *minhash;
        Team    *team;
        MinHashPlan plan = plan_make(1 << 20);
        plan.bands = 1;
        assert_int_equal(minhash_open(&minhash, &plan), OK);
        assert_int_equal(team_open(&team, 1), OK);
        for (int64_t i = 0; i < count; i++) assert_int_equal(minhash_add(minhash, &(uint64_t){ 77 }), OK);
        assert_int_equal(minhash_resolve(minhash, &(MinHashReading){ .team = team, .read = read_number }), OK);
        MinHashCounts c = minhash_counts(minhash);
        assert_int_equal(c.pairs, count <= 5 ? count * (count - 1) / 2 : 10 + 2 * (count - 5));
        assert_int_equal(c.compared, count * (count - 1) / 2);
        assert_int_equal(c.buckets, 1);
        assert_int_equal(c.large, count >= 5);
        assert_int_equal(c.largest, count);
        assert_int_equal(c.removed, 0);
        minhash_close(minhash);
        team_close(team);
    }
}

static Status read_nothing(void *context, int worker, int64_t document, Shingles *shingles)
{
    (void)context, (void)worker, (void)shingles;
    return fail(BAD_FILE, "document %ld went away", (long)document);
}

static void refusals(void **state)
{
    (void)state;
    MinHash *minhash;
    Team *team;
    MinHashPlan plan = plan_make(1 << 20);
    uint64_t key[MINHASH_BANDS];
    plan.rows = 100;
    assert_int_equal(minhash_open(&minhash, &plan), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "18 bands of 100 rows"));
    plan.rows = 7, plan.threshold = 0;
    assert_int_equal(minhash_open(&minhash, &plan), BAD_OPTION);
    plan.threshold = 0.8, plan.folder = "/dev/null/x";
    assert_int_equal(minhash_open(&minhash, &plan), BAD_FILE);
    plan.folder = folder;
    assert_int_equal(minhash_open(&minhash, &plan), OK);
    for (int i = 0; i < MINHASH_BANDS; i++) key[i] = 5;
    for (int i = 0; i < 2; i++) assert_int_equal(minhash_add(minhash, key), OK);
    assert_int_equal(team_open(&team, 2), OK);
    assert_int_equal(minhash_resolve(minhash, &(MinHashReading){ .team = team, .read = read_nothing }), BAD_FILE);
    assert_non_null(strstr(fail_text(), "went away"));
    team_close(team);
    minhash_close(minhash);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/jotun-near-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_pairs),
        cmocka_unit_test(every_pair),
        cmocka_unit_test(threads_and_memory),
        cmocka_unit_test(great_buckets),
        cmocka_unit_test(signatures_are_least_values),
        cmocka_unit_test(short_and_gone),
        cmocka_unit_test(sets_are_in_a_file),
        cmocka_unit_test(one_bucket),
        cmocka_unit_test(refusals),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (rmdir(folder) != 0) return 1;              /* something was left in it */
    return failed;
}
