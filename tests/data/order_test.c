/* Samples equal to Megatron-core's and to the forks' (tests/golden/data/order.txt, made by tests/oracles/order.py, and parts.txt, made by parts.py) */
#include "data/blend.h"
#include "data/mt19937.h"
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>
#include "data/token_files.h"

enum { PARTS = 32, LENGTHS = 64 };

/* Token i of part p is 10000 p + i */
static void part_make(TokenFile *token_file, int part, const int *length, int count)
{
    char name[16];
    int32_t ids[4096];
    int at = 0;
    for (int d = 0; d < count; d++) at += length[d];
    for (int i = 0; i < at; i++) ids[i] = 10000 * part + i;
    snprintf(name, sizeof name, "p%d", part);
    pair_make(token_file, name, ids, length, count, 1000000);
}

/* ---- numpy's random numbers ---- */

static void shuffles(void **state)
{
    (void)state;
    static const struct { uint32_t seed; int32_t want[10]; } row[] = {
        { 42,   { 8, 1, 5, 0, 7, 2, 9, 4, 3, 6 } },
        { 0,    { 2, 8, 4, 9, 1, 6, 7, 3, 0, 5 } },
        { 1234, { 7, 2, 9, 1, 0, 8, 4, 5, 6, 3 } },
    };
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        int32_t narrow[10];
        int64_t wide[10];
        Mt19937 t;
        for (int i = 0; i < 10; i++) narrow[i] = i, wide[i] = i;
        mt19937_seed(&t, row[r].seed);
        mt19937_shuffle(&t, narrow, 4, 10);
        assert_memory_equal(narrow, row[r].want, sizeof narrow);
        mt19937_seed(&t, row[r].seed);
        mt19937_shuffle(&t, wide, 8, 10);
        for (int i = 0; i < 10; i++) assert_int_equal(wide[i], row[r].want[i]);
    }
}

/* numpy: RandomState(5489).randint(0, 2**32, 1000, dtype uint32)[-1], and an interval beyond 32 bits of two draws, high first */
static void draws(void **state)
{
    (void)state;
    Mt19937 t, again;
    uint32_t last = 0;
    mt19937_seed(&t, 5489);
    for (int i = 0; i < 10000; i++) last = mt19937_next(&t);
    assert_int_equal(last, 4123659995u);                   /* the C++ standard's check of mt19937 */
    again = t;
    uint64_t high = mt19937_next(&again), low = mt19937_next(&again);
    assert_true(mt19937_interval(&t, UINT64_MAX) == (high << 32 | low));
    again = t;
    assert_int_equal(mt19937_interval(&t, 0), 0);
    assert_memory_equal(&t, &again, sizeof t);
    for (int i = 0; i < 1000; i++) assert_true(mt19937_interval(&t, 5) <= 5);
}

/* ---- three cases by hand ---- */

static void index_is(const NpyArray *index, int64_t count, const int *want)
{
    assert_int_equal(index->rows * index->columns, count);
    for (int64_t i = 0; i < count; i++) assert_int_equal(npy_array_at(index, i), want[i]);
}

static void indices(void **state)
{
    (void)state;
    static const int length[] = { 7, 3, 12, 5, 9, 1, 20, 4 };
    TokenFile token_file;
    Order order;
    part_make(&token_file, 0, length, 8);
    OrderSpec spec = { .begin = 0, .end = 8, .wanted = ORDER_ONE_EPOCH, .sequence = 8, .seed = 1234, .final_epoch_cut = 0.80 };
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);
    index_is(&order.document, 8, (int[]){ 2, 1, 6, 0, 4, 5, 3, 7 });
    index_is(&order.sample, 16, (int[]){ 0, 0, 0, 8, 2, 1, 2, 9, 2, 17, 3, 5, 4, 6, 6, 4 });
    index_is(&order.shuffle, 7, (int[]){ 5, 0, 3, 4, 2, 6, 1 });
    order_close(&order);
    spec.wanted = 17;
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);
    assert_int_equal(order.plan.epochs, 3);
    assert_true(order.plan.separate);
    index_is(&order.document, 24, (int[]){ 5, 3, 0, 4, 6, 2, 2, 7, 1, 1, 0, 4, 5, 6, 3, 7, 5, 1, 3, 4, 0, 7, 6, 2 });
    index_is(&order.shuffle, 22, (int[]){ 4, 7, 1, 10, 13, 3, 8, 12, 11, 5, 14, 2, 6, 9, 0, 19, 16, 21, 20, 17, 18, 15 });
    order_close(&order);
    spec.wanted = 20;
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);
    assert_false(order.plan.separate);
    index_is(&order.document, 24, (int[]){ 7, 0, 2, 3, 1, 2, 5, 4, 0, 0, 5, 5, 2, 6, 4, 6, 3, 1, 1, 7, 4, 6, 3, 7 });
    index_is(&order.shuffle, 22, (int[]){ 8, 17, 21, 1, 4, 20, 19, 13, 14, 9, 0, 11, 7, 3, 10, 6, 2, 5, 12, 16, 18, 15 });
    order_close(&order);
    spec.final_epoch_cut = 0.95;                                       /* 20 wanted, 15 before: 5 < int(0.95 x 7) = 6, and not < int(0.8 x 7) */
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);
    assert_true(order.plan.separate);
    order_close(&order);
    token_file_close(&token_file);
}

/* ---- Megatron's own samples ---- */

typedef struct { TokenFile token_file[PARTS]; BlendSpec list; BlendRules spec; SplitKind kind; char split[64]; } Case;

static bool case_read(Case *c, FILE *file)
{
    char rule[8], weight[40], corpus[40];
    int  kind, shuffled, blended, parts, count, length[LENGTHS];
    *c = (Case){ 0 };
    if (fscanf(file, "case %7s %" SCNd64 " %" SCNu64 " %63s %d %" SCNd64 " %lf %lf %d %d %" SCNd64 " %d ", rule, &c->spec.sequence, &c->spec.seed,
               c->split, &kind, &c->spec.wanted, &c->spec.final_epoch_cut, &c->spec.surplus, &shuffled, &blended, &c->spec.wanted_train, &parts) != 12)
        return false;
    assert_true(parts <= PARTS);
    c->kind = (SplitKind)kind;
    c->spec.kind = strcmp(rule, "core") ? BLEND_FORKS : BLEND_CORE;
    c->spec.split = c->split;
    c->spec.corpus_shuffled = shuffled;
    c->spec.corpus_blended = blended;
    c->list = (BlendSpec){ .part = calloc((size_t)parts, sizeof(BlendPart)), .count = parts };
    for (int p = 0; p < parts; p++) {
        assert_int_equal(fscanf(file, "part %39s %39s %d", weight, corpus, &count), 3);
        assert_true(count <= LENGTHS);
        for (int i = 0; i < count; i++) assert_int_equal(fscanf(file, " %d ", &length[i]), 1);
        c->list.weighted = strcmp(weight, "-");
        c->list.part[p] = (BlendPart){ .prefix = strdup("p"), .corpus = strcmp(corpus, "-") ? strdup(corpus) : NULL, .weight = c->list.weighted ? strtod(weight, NULL) : 1 };
        part_make(&c->token_file[p], p, length, count);
    }
    return true;
}

static uint64_t samples_hash(const Blend *blend, int64_t samples, int64_t sequence)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t k = 0; k < samples; k++) {
        OrderReader reader = blend_read(blend, k);
        for (int64_t i = 0; i <= sequence; i++) hash = (hash ^ (uint64_t)token_file_token(reader.token_file, order_reader_next(&reader))) * 0x100000001b3u;
    }
    return hash;
}

static void case_check(Case *c, FILE *file)
{
    int64_t  samples;
    uint64_t hash;
    int shown, first;
    Blend blend;
    assert_int_equal(fscanf(file, "samples %" SCNd64 " %" SCNx64 " %d", &samples, &hash, &shown), 3);
    Status status = blend_open(&blend, c->token_file, &c->list, &c->spec, c->kind);
    if (status != OK) {
        assert_non_null(strstr(fail_text(), "give weights"));      /* Megatron gives fewer than asked for; we say so */
        for (int k = 0; k < shown; k++) assert_int_equal(fscanf(file, " %d ", &first), 1);
        return;
    }
    if (c->spec.kind == BLEND_CORE) assert_int_equal(blend.samples, samples);
    else assert_true(blend.samples <= samples);                    /* the forks make some to spare */
    for (int k = 0; k < shown; k++) {
        assert_int_equal(fscanf(file, " %d ", &first), 1);
        OrderReader reader = k < blend.samples ? blend_read(&blend, k) : (OrderReader){ 0 };
        if (reader.token_file) assert_int_equal(token_file_token(reader.token_file, order_reader_next(&reader)), first);
    }
    if (blend.samples == samples) assert_true(samples_hash(&blend, samples, c->spec.sequence) == hash);
    blend_close(&blend);
}

static void megatron_samples(void **state)
{
    (void)state;
    static Case c;
    int cases = 0;
    FILE *file = fopen(TESTS_DIR "/golden/data/order.txt", "r");
    assert_non_null(file);
    for (; case_read(&c, file); cases++) {
        case_check(&c, file);
        for (int p = 0; p < c.list.count; p++) token_file_close(&c.token_file[p]);
        blend_spec_close(&c.list);
        fscanf(file, " ");
    }
    assert_true(feof(file));
    fclose(file);
    assert_int_equal(cases, 120);
}

/* ---- large, and not at all ---- */

static void counts(void **state)
{
    (void)state;
    OrderPlan plan;
    OrderSpec spec = { .begin = 0, .end = 1 << 20, .wanted = ((int64_t)1 << 31) - 1, .sequence = 1, .final_epoch_cut = 0.80 };
    int64_t tokens = (int64_t)1 << 20;                     /* documents of one token, so 2^20 a epoch: 2048 epochs are 2^31 entries */
    assert_int_equal(order_plan(&plan, &spec, tokens, "d"), OK);
    assert_int_equal(plan.epochs, 2048);
    assert_int_equal(plan.entries, (int64_t)1 << 31);
    assert_int_equal(plan.sample_type, NPY_I64);
    assert_int_equal(plan.shuffle_type, NPY_U32);
    spec.wanted -= tokens;
    assert_int_equal(order_plan(&plan, &spec, tokens, "d"), OK);
    assert_int_equal(plan.epochs, 2047);
    assert_int_equal(plan.sample_type, NPY_I32);
    spec = (OrderSpec){ .begin = 0, .end = 10, .wanted = ORDER_ONE_EPOCH, .sequence = 1 };
    assert_int_equal(order_plan(&plan, &spec, UINT32_MAX - (int64_t)1, "d"), OK);      /* 2^32 - 3 samples, then one more */
    assert_int_equal(plan.shuffle_type, NPY_U32);
    assert_int_equal(order_plan(&plan, &spec, UINT32_MAX, "d"), OK);
    assert_int_equal(plan.samples, UINT32_MAX - (int64_t)1);
    assert_int_equal(plan.shuffle_type, NPY_I64);
    spec.wanted = INT64_MAX / 2;
    assert_int_equal(order_plan(&plan, &spec, 100, "d"), BAD_OPTION);
}

static void refused(const TokenFile *token_file, OrderSpec spec, Status want, const char *word)
{
    Order order;
    assert_int_equal(order_open(&order, token_file, &spec, SPLIT_TEST, NULL), want);
    assert_non_null(strstr(fail_text(), word));
}

static void refusals(void **state)
{
    (void)state;
    TokenFile token_file;
    Order order;
    OrderSpec spec = { .begin = 0, .end = 3, .wanted = 4, .sequence = 100, .final_epoch_cut = 0.80 };
    part_make(&token_file, 0, (int[]){ 0, 3, 2, 0 }, 4);
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);         /* shorter than a sample: many epochs */
    assert_int_equal(order.plan.epochs, 81);
    order_close(&order);
    spec.wanted = ORDER_ONE_EPOCH;
    refused(&token_file, spec, BAD_FILE, "0 to 3 of it have 5 tokens, and one sample of --seq-length 100 takes 101");
    spec.begin = 3, spec.wanted = 4;
    refused(&token_file, spec, BAD_FILE, "3 to 3 of it have 0 tokens");
    spec.end = 4;
    refused(&token_file, spec, BAD_FILE, "3 to 4 of it have 0 tokens");
    spec.begin = 0, spec.seed = (uint64_t)1 << 32;
    refused(&token_file, spec, BAD_OPTION, "--seed 4294967296");
    token_file_close(&token_file);
}

/* A small pair of which nearly every sequence is empty must not make an index of terabytes. */
static void mostly_empty(void **state)
{
    (void)state;
    OrderPlan plan;
    OrderSpec spec = { .begin = 0, .end = 1000000, .wanted = 1000, .sequence = 1024, .final_epoch_cut = 0.80 };
    assert_int_equal(order_plan(&plan, &spec, 1, "p.bin"), BAD_FILE);
    assert_non_null(strstr(fail_text(), "p.bin: 1000000 sequences with 1 tokens in all; most are empty"));
    assert_int_equal(order_plan(&plan, &spec, 1000000, "p.bin"), OK);
    spec.wanted = ORDER_ONE_EPOCH, spec.sequence = 1;
    assert_int_equal(order_plan(&plan, &spec, 2, "p.bin"), OK);              /* one entry each, which the file has too */
}

/* 1e9 tokens in documents of 1 to 999: the index alone is there */
static void many_tokens(void **state)
{
    (void)state;
    enum { DOCUMENTS = 2000000 };
    int32_t *length = malloc(DOCUMENTS * sizeof *length);
    int64_t tokens = 0, at = 0;
    Order order;
    assert_non_null(length);
    for (int d = 0; d < DOCUMENTS; d++) tokens += length[d] = 1 + (int)((uint32_t)d * 2654435761u % 999);
    TokenFile token_file = { .sequences = DOCUMENTS, .length = (const uint8_t *)length };
    OrderSpec spec = { .begin = 0, .end = DOCUMENTS, .wanted = 3 * tokens / 2 / 2048, .sequence = 2048, .seed = 1234, .final_epoch_cut = 0.80 };
    assert_int_equal(order_open(&order, &token_file, &spec, SPLIT_TRAIN, NULL), OK);
    assert_int_equal(order.plan.epochs, 2);
    uint8_t *seen = calloc((size_t)order.plan.samples, 1);
    assert_non_null(seen);
    for (int64_t i = 0, d = 0; i < order.plan.samples; i++) {
        for (; d < npy_array_at(&order.sample, 2 * i); d++) at += length[npy_array_at(&order.document, d)];
        assert_int_equal(at + npy_array_at(&order.sample, 2 * i + 1), i * 2048);
        assert_int_equal(seen[npy_array_at(&order.shuffle, i)]++, 0);
    }
    order_close(&order);
    free(seen);
    free(length);
}

/* ---- the cache ---- */

static uint64_t order_hash(const Order *order)
{
    uint64_t hash = 0;
    for (int64_t k = 0; k < order->plan.samples; k++) {
        OrderReader r = order_read(order, k);
        for (int i = 0; i <= order->spec.sequence; i++) hash = hash * 31 + (uint64_t)token_file_token(r.token_file, order_reader_next(&r));
    }
    return hash;
}

static uint64_t cached_hash(const TokenFile *token_file, const OrderSpec *spec, const char *dir, bool mapped)
{
    Order order;
    assert_int_equal(order_open(&order, token_file, spec, SPLIT_TRAIN, dir), OK);
    if (dir) assert_true(!order.document.made == mapped);
    uint64_t hash = order_hash(&order);
    order_close(&order);
    return hash;
}

static void file_change(const char *pattern, const char *command)
{
    char line[512];
    snprintf(line, sizeof line, "for f in %s/%s; do %s; done", folder, pattern, command);
    assert_int_equal(system(line), 0);
}

static void cache_is_believed_never(void **state)
{
    (void)state;
    static const char *const harm[] = {
        "truncate -s 200 $f", "truncate -s 0 $f", "rm $f", "printf '\\377' | dd of=$f bs=1 seek=131 conv=notrunc status=none",
    };
    static const char *const file[] = { "cache/*document_index.npy", "cache/*sample_index.npy", "cache/*shuffle_index.npy", "cache/*.txt" };
    TokenFile token_file;
    char  dir[96];
    OrderSpec spec = { .begin = 0, .end = 8, .wanted = 40, .sequence = 8, .seed = 7, .final_epoch_cut = 0.80 };
    part_make(&token_file, 0, (int[]){ 0, 3, 12, 5, 9, 1, 20, 4 }, 8);
    snprintf(dir, sizeof dir, "%s/cache", folder);
    uint64_t want = cached_hash(&token_file, &spec, NULL, false);
    assert_true(cached_hash(&token_file, &spec, dir, true) == want);
    assert_true(cached_hash(&token_file, &spec, dir, true) == want);
    for (int f = 0; f < 4; f++)
        for (int h = 0; h < 4; h++) {
            file_change(file[f], harm[h]);
            assert_true(cached_hash(&token_file, &spec, dir, true) == want);
        }
    file_change("cache/*document_index.npy", "printf '\\223NUMPY\\001' | cmp -n 7 - $f");
    token_file_close(&token_file);
    part_make(&token_file, 0, (int[]){ 1, 2, 12, 5, 9, 1, 20, 4 }, 8);      /* prepared anew */
    assert_true(cached_hash(&token_file, &spec, dir, true) == cached_hash(&token_file, &spec, NULL, false));
    file_change("cache", "test $(ls $f/*.txt | wc -l) = 2");           /* and does not push the other out */
    token_file_close(&token_file);
    NpyCache cache, other;
    assert_int_equal(npy_cache_name(&cache, dir, "GPTDataset", "train", "words"), OK);
    assert_false(npy_cache_holds(&cache));
    assert_int_equal(npy_cache_finish(&cache), OK);
    assert_true(npy_cache_holds(&cache));
    other = cache, other.description = "other";                                 /* as if hashes met */
    assert_false(npy_cache_holds(&other));
    assert_int_equal(folder_remove(dir), OK);
}

static void many_runs_at_once(void **state)
{
    (void)state;
    enum { RUNS = 12 };
    TokenFile token_file;
    char  dir[96];
    int   length[64], bad = 0, status;
    OrderSpec spec = { .begin = 0, .end = 64, .wanted = 20000, .sequence = 3, .seed = 7, .final_epoch_cut = 0.80 };
    for (int i = 0; i < 64; i++) length[i] = i;
    part_make(&token_file, 0, length, 64);
    snprintf(dir, sizeof dir, "%s/many", folder);
    uint64_t want = cached_hash(&token_file, &spec, NULL, false);
    for (int run = 0; run < RUNS; run++)
        if (fork() == 0) {
            Order order;
            Status opened = order_open(&order, &token_file, &spec, SPLIT_TRAIN, dir);
            _exit(opened == OK && order_hash(&order) == want ? 0 : 1);
        }
    for (int run = 0; run < RUNS; run++)
        if (wait(&status) < 0 || status != 0) bad++;
    assert_int_equal(bad, 0);
    file_change("many/*", "case $f in *.part) exit 1;; esac");
    token_file_close(&token_file);
    assert_int_equal(folder_remove(dir), OK);
}

/* ---- parts of data sets, as BigScience's fork has them ---- */

static void fork_parts(void **state)
{
    (void)state;
    char     group[1024];
    int      cases = 0, parts, count, length[LENGTHS], shown, first;
    uint64_t hash;
    FILE *file = fopen(TESTS_DIR "/golden/data/parts.txt", "r");
    assert_non_null(file);
    static Case c;
    c = (Case){ .spec = { .kind = BLEND_FORKS, .final_epoch_cut = 0.95, .surplus = 0.005 } };
    for (; fscanf(file, "case %" SCNd64 " %" SCNu64 " %" SCNd64 " %d ", &c.spec.sequence, &c.spec.seed, &c.spec.wanted, &parts) == 4; cases++) {
        Blend blend;
        assert_non_null(fgets(group, sizeof group, file));
        group[strcspn(group, "\n")] = 0;
        assert_int_equal(blend_spec_group(&c.list, group), OK);
        assert_int_equal(c.list.count, parts);
        for (int p = 0; p < parts; p++) {
            assert_int_equal(fscanf(file, "part %d", &count), 1);
            for (int i = 0; i < count; i++) assert_int_equal(fscanf(file, " %d ", &length[i]), 1);
            part_make(&c.token_file[p], p, length, count);
        }
        assert_int_equal(fscanf(file, "samples %" SCNx64 " %d", &hash, &shown), 2);
        assert_int_equal(blend_open(&blend, c.token_file, &c.list, &c.spec, SPLIT_TRAIN), OK);
        for (int k = 0; k < shown; k++) {
            assert_int_equal(fscanf(file, " %d ", &first), 1);
            OrderReader reader = blend_read(&blend, k);
            assert_int_equal(token_file_token(reader.token_file, order_reader_next(&reader)), first);
        }
        assert_true(samples_hash(&blend, c.spec.wanted, c.spec.sequence) == hash);
        blend_close(&blend);
        for (int p = 0; p < parts; p++) token_file_close(&c.token_file[p]);
        blend_spec_close(&c.list);
    }
    assert_true(feof(file));
    fclose(file);
    assert_int_equal(cases, 20);
}

/* ---- blends ---- */

enum { MIXED = 3 };
typedef struct { TokenFile token_file[MIXED]; BlendPart part[MIXED]; BlendSpec list; BlendRules spec; } Mixed;

/* Two corpora of three pairs, or no corpora */
static void mixed_make(Mixed *m, bool corpora)
{
    static char names[MIXED][8] = { "b", "a", "b" };
    int length[20];
    *m = (Mixed){ .spec = { .kind = corpora ? BLEND_FORKS : BLEND_CORE, .split = "1", .wanted = 3000, .wanted_train = 3000, .sequence = 3, .seed = 7,
                            .final_epoch_cut = 0.80, .surplus = 0.05, .corpus_shuffled = true } };
    for (int p = 0; p < MIXED; p++) {
        for (int i = 0; i < 20; i++) length[i] = (i * 7 + p * 3) % 11;
        part_make(&m->token_file[p], p, length, 20);
        m->part[p] = (BlendPart){ .prefix = names[p], .corpus = corpora ? names[p] : NULL, .weight = 1 + p };
    }
    m->list = (BlendSpec){ .part = m->part, .count = MIXED, .weighted = true };
}

static void mixed_close(Mixed *m)
{
    for (int p = 0; p < MIXED; p++) token_file_close(&m->token_file[p]);
}

/* 0: it does not open. *mapped: the blend itself came from the cache */
static uint64_t mixed_hash(Mixed *m, const char *dir, bool *mapped)
{
    Blend blend;
    m->spec.cache = dir;
    if (blend_open(&blend, m->token_file, &m->list, &m->spec, SPLIT_TRAIN) != OK) return 0;
    uint64_t hash = samples_hash(&blend, blend.samples, m->spec.sequence);
    *mapped = !blend.which.made;
    blend_close(&blend);
    return hash;
}

static void blends_are_cached(void **state)
{
    (void)state;
    static const char *const harm[] = { "truncate -s 200 $f", "rm $f", "printf '\\377\\377' | dd of=$f bs=1 seek=150 conv=notrunc status=none" };
    for (int corpora = 0; corpora < 2; corpora++) {
        Mixed m;
        char  dir[96];
        bool  mapped;
        mixed_make(&m, corpora);
        snprintf(dir, sizeof dir, "%s/blends", folder);
        uint64_t want = mixed_hash(&m, NULL, &mapped);
        assert_true(want != 0 && !mapped);
        for (int turn = 0; turn < 2; turn++) {
            assert_true(mixed_hash(&m, dir, &mapped) == want);
            assert_true(mapped);
        }
        for (int h = 0; h < 3; h++) {
            file_change("blends/*-BlendedDataset-*dataset*.npy", harm[h]);
            assert_true(mixed_hash(&m, dir, &mapped) == want);
        }
        m.part[0].weight = 5;                                      /* another blend beside it */
        uint64_t other = mixed_hash(&m, NULL, &mapped);
        assert_true(other != want && mixed_hash(&m, dir, &mapped) == other);
        file_change("blends", "test $(ls $f/*Blended*.txt | wc -l) = 2");
        mixed_close(&m);
        assert_int_equal(folder_remove(dir), OK);
    }
}

static void many_blends_at_once(void **state)
{
    (void)state;
    enum { RUNS = 12 };
    Mixed m;
    char  dir[96];
    bool  mapped;
    int   bad = 0, status;
    mixed_make(&m, false);
    snprintf(dir, sizeof dir, "%s/blends", folder);
    uint64_t want = mixed_hash(&m, NULL, &mapped);
    for (int run = 0; run < RUNS; run++)
        if (fork() == 0) _exit(mixed_hash(&m, dir, &mapped) == want ? 0 : 1);
    for (int run = 0; run < RUNS; run++)
        if (wait(&status) < 0 || status != 0) bad++;
    assert_int_equal(bad, 0);
    assert_true(mixed_hash(&m, dir, &mapped) == want && mapped);
    file_change("blends/*", "case $f in *.part) exit 1;; esac");
    mixed_close(&m);
    assert_int_equal(folder_remove(dir), OK);
}

/* What is measured is what is made, to the byte. */
static void measured_is_made(void **state)
{
    (void)state;
    for (int corpora = 0; corpora < 2; corpora++) {
        Mixed m;
        Blend counted, made;
        mixed_make(&m, corpora);
        assert_int_equal(blend_measure(&counted, m.token_file, &m.list, &m.spec, SPLIT_TRAIN), OK);
        assert_int_equal(blend_open(&made, m.token_file, &m.list, &m.spec, SPLIT_TRAIN), OK);
        assert_int_equal(counted.samples, made.samples);
        int64_t bytes = made.which.rows * 2 + made.sample.rows * 8;
        for (int p = 0; p < MIXED; p++)
            for (int k = 0; k < 3; k++) {
                const NpyArray *x = k == 0 ? &made.order[p].document : k == 1 ? &made.order[p].sample : &made.order[p].shuffle;
                bytes += x->rows * x->columns * npy_array_width(x->type);
            }
        assert_int_equal(blend_bytes(&counted), bytes);
        blend_close(&counted);
        blend_close(&made);
        mixed_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles),
        cmocka_unit_test(draws),
        cmocka_unit_test(indices),
        cmocka_unit_test(megatron_samples),
        cmocka_unit_test(counts),
        cmocka_unit_test(refusals),
        cmocka_unit_test(mostly_empty), cmocka_unit_test(many_tokens),
        cmocka_unit_test(cache_is_believed_never),
        cmocka_unit_test(many_runs_at_once),
        cmocka_unit_test(fork_parts),
        cmocka_unit_test(blends_are_cached),
        cmocka_unit_test(many_blends_at_once),
        cmocka_unit_test(measured_is_made),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
