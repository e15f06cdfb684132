/* Batches read ahead are those of loader_fill, whatever is asked for and however often the run jumps; faults come when they are taken. */
#include "base/random.h"
#include "data/prefetch.h"
#include "data/token_files.h"

enum { S = 16, MICROS = 3, COUNTED = 2000, EOD = 7 };
static TokenFile  token_file;
static Loader loader;
static Arena  host;
/* As two chunks of an interleaved schedule take them, in steps of 2 and of 3 micro-batches of 2 samples: from
 * sample 20 on steps are larger. */
static const int few[] = { 0, 1, 0, 1 }, order[] = { 0, 0, 1, 2, 1, 2 };
enum { RISE = 20, FEW = sizeof few / sizeof *few, TAKES = sizeof order / sizeof *order };
static const BatchStep sizes[] = { { 0, 4 }, { RISE, 6 } };
static const StepOrder orders[] = { { 6, order, TAKES }, { 4, few, FEW } };

static PrefetchSetup setup_of(int64_t vocabulary)
{
    return (PrefetchSetup){ .loader = &loader, .batch = { sizes, 2 }, .order = orders, .orders = 2, .vocabulary = vocabulary, .host = &host };
}

static const StepOrder *order_of(int64_t first) { return &orders[first < RISE]; }

static void assert_same(Tensor a, Tensor b)
{
    assert_int_equal(tensor_bytes(a), tensor_bytes(b));
    assert_memory_equal(a.data, b.data, tensor_bytes(a));
}

static void take(Prefetch *p, Batch *mine, Batch *wanted, int64_t first, int i)
{
    memset(mine->token_i.data, 0xff, tensor_bytes(mine->token_i));
    assert_int_equal(prefetch_take(p, NULL, mine, first, i), OK);
    assert_int_equal(loader_fill(&loader, wanted, first, order_of(first)->micro[i], COUNTED), OK);
    assert_same(mine->token_i, wanted->token_i);
    assert_same(mine->target_i, wanted->target_i);
    assert_same(mine->loss_weight_T, wanted->loss_weight_T);
    assert_same(mine->position_i, wanted->position_i);
    assert_same(mine->dropout_index_i, wanted->dropout_index_i);
    assert_same(mine->sample_i, wanted->sample_i);
    assert_same(mine->key_range_i, wanted->key_range_i);
}

static void same_as_the_loader(void **state)
{
    (void)state;
    Prefetch *p;
    size_t mark = arena_mark(&host);
    PrefetchSetup setup = setup_of(COUNTED);
    assert_int_equal(prefetch_open(&p, &setup), OK);
    Batch mine = loader_batch_new(&loader.config, &host), wanted = loader_batch_new(&loader.config, &host);
    for (int64_t first = 0; first < 300; first += order_of(first)->samples)
        for (int i = 0; i < order_of(first)->count; i++) take(p, &mine, &wanted, first, i);
    for (uint64_t n = 0; n < 300; n++) {                      /* a run that jumps, and goes on for a while */
        int64_t first = (int64_t)(random_bits(3, n) % 240);
        for (int i = (int)n % order_of(first)->count; i < order_of(first)->count; i++) take(p, &mine, &wanted, first, i);
        if (n % 3 == 0) take(p, &mine, &wanted, first + order_of(first)->samples, 0);
    }
    assert_true(prefetch_waited(p) >= 0);
    prefetch_close(p);
    arena_reset(&host, mark);
}

/* The thread may run ahead into what is broken; nobody hears of it before it is asked for. */
static void faults_come_in_their_turn(void **state)
{
    (void)state;
    Prefetch *p;
    size_t mark = arena_mark(&host);
    PrefetchSetup setup = setup_of(COUNTED / 2);              /* about half of all samples have a token beyond it */
    assert_int_equal(prefetch_open(&p, &setup), OK);
    Batch mine = loader_batch_new(&loader.config, &host), wanted = loader_batch_new(&loader.config, &host);
    int seen[2] = { 0 };
    for (int64_t first = 0; first < 120; first += order_of(first)->samples)
        for (int i = 0; i < order_of(first)->count; i++) {
            Status want = loader_fill(&loader, &wanted, first, order_of(first)->micro[i], COUNTED / 2);
            assert_int_equal(prefetch_take(p, NULL, &mine, first, i), want);
            if (want != OK) assert_non_null(strstr(fail_text(), "outside of the vocabulary of 1000"));
            seen[want == OK]++;
        }
    assert_true(seen[0] && seen[1]);
    prefetch_close(p);
    arena_reset(&host, mark);
}

static void closes_at_any_time(void **state)
{
    (void)state;
    PrefetchSetup setup = setup_of(COUNTED);
    size_t mark = arena_mark(&host);
    Batch mine = loader_batch_new(&loader.config, &host);
    for (int takes = 0; takes < 200; takes++) {
        Prefetch *p;
        size_t inner = arena_mark(&host);
        assert_int_equal(prefetch_open(&p, &setup), OK);
        for (int i = 0; i < takes % 4; i++) assert_int_equal(prefetch_take(p, NULL, &mine, takes, i), OK);
        prefetch_close(p);
        arena_reset(&host, inner);
    }
    prefetch_close(NULL);
    arena_reset(&host, mark);
}

/* A dry run counts to the byte what the real one takes. */
static void dry_counts(void **state)
{
    (void)state;
    Prefetch *p;
    Arena dry;
    PrefetchSetup setup = setup_of(COUNTED);
    size_t mark = arena_mark(&host), before = host.used;
    assert_int_equal(prefetch_open(&p, &setup), OK);
    size_t taken = host.used - before;
    prefetch_close(p);
    arena_reset(&host, mark);
    arena_dry(&dry, "dry");
    setup.host = &dry;
    assert_int_equal(prefetch_open(&p, &setup), OK);
    prefetch_close(p);
    assert_true(taken > 0);
    assert_int_equal(dry.used, taken);
    arena_close(&dry);
}

static int files_open(void **state)
{
    int32_t ids[COUNTED];
    int length[20];
    LoaderConfig config = { .sequence = S, .micro = 2, .global = 2 * MICROS, .dp = 1, .cp = 1, .seed = 5, .eod = EOD, .loss_weight = F32,
                          .reset_attention = true, .reset_positions = true };
    for (int i = 0; i < COUNTED; i++) ids[i] = i;
    for (int i = 0; i < 20; i++) length[i] = COUNTED / 20;
    if (folder_open(state) || arena_open(&host, "host", 1 << 20) != OK) return -1;
    pair_make(&token_file, "counted", ids, length, 20, COUNTED);
    return loader_open(&loader, &token_file, "1", SPLIT_TRAIN, config) == OK ? 0 : -1;
}

static int files_close(void **state)
{
    token_file_close(&token_file);
    arena_close(&host);
    return folder_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_loader),
        cmocka_unit_test(faults_come_in_their_turn),
        cmocka_unit_test(closes_at_any_time),
        cmocka_unit_test(dry_counts),
    };
    return cmocka_run_group_tests(tests, files_open, files_close);
}
