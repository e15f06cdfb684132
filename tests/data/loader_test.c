/* Samples to batches: every layout sees the same samples once, the order is a pure function, masks are those made by hand. */
#include "data/loader.h"
#include "tensor/ops.h"
#include "data/token_files.h"

enum { S = 8, GLOBAL = 4, EOD = 7, COUNTED = 1000 };
static TokenFile counted;        /* 10 documents, tokens 100, 101, 102 ...: a token tells its place */
static TokenFile lettered;       /* one short sample, with ends of documents */
static Arena host;

static const LoaderConfig plain = { .sequence = S, .micro = GLOBAL, .global = GLOBAL, .dp = 1, .cp = 1, .seed = 1234,
                                   .eod = EOD, .loss_weight = F32 };

static const int32_t *ints(Tensor x) { return x.data; }

/* ---- layouts ---- */

typedef struct { int32_t token[GLOBAL][S], target[GLOBAL][S], position[GLOBAL][S]; int seen[GLOBAL][S]; } Whole;

static void batch_gather(Whole *whole, const Batch *batch, int64_t b, int64_t s)
{
    for (int64_t row = 0; row < b * s; row++) {
        int32_t place = ints(batch->dropout_index_i)[row], sample = place / S, index = place % S;
        int64_t j = row % s, half = s / 2;
        assert_int_equal(index, j < half ? batch->part[0] + j : batch->part[1] + j - half);
        assert_int_equal(sample, ints(batch->sample_i)[row / s]);
        whole->token[sample][index]    = ints(batch->token_i)[row];
        whole->target[sample][index]   = ints(batch->target_i)[row];
        whole->position[sample][index] = ints(batch->position_i)[row];
        whole->seen[sample][index]++;
    }
}

static Blend *blend;          /* NULL: our own order */

static Whole step_gather(int64_t step, int dp, int cp, int64_t micro)
{
    Whole whole = { 0 };
    size_t mark = arena_mark(&host);
    for (int d = 0; d < dp; d++)
        for (int c = 0; c < cp; c++) {
            Loader loader;
            LoaderConfig config = plain;
            config.micro = micro;
            config.dp = dp, config.dp_rank = d, config.cp = cp, config.cp_rank = c;
            if (blend) assert_int_equal(loader_open_blend(&loader, blend, config), OK);
            else       assert_int_equal(loader_open(&loader, &counted, "100", SPLIT_TRAIN, config), OK);
            Batch batch = loader_batch_new(&config, &host);
            assert_false(tensor_present(batch.key_range_i));
            for (int m = 0; m < GLOBAL / (micro * dp); m++) {
                assert_int_equal(loader_fill(&loader, &batch, step * GLOBAL, m, 100000), OK);
                batch_gather(&whole, &batch, micro, S / cp);
            }
        }
    arena_reset(&host, mark);
    return whole;
}

static void layouts_see_the_same(void **state)
{
    (void)state;
    for (int64_t step = 0; step < 70; step += 23) {
        Whole one = step_gather(step, 1, 1, GLOBAL);
        for (int sample = 0; sample < GLOBAL; sample++)
            for (int i = 0; i < S; i++) {
                assert_int_equal(one.seen[sample][i], 1);
                assert_int_equal(one.token[sample][i], one.token[sample][0] + i);
                assert_int_equal(one.target[sample][i], one.token[sample][i] + 1);
                assert_int_equal(one.position[sample][i], i);
            }
        for (int dp = 1; dp <= 4; dp *= 2)
            for (int cp = 1; cp <= 4; cp *= 2)
                for (int64_t micro = 1; micro * dp <= GLOBAL; micro *= 2) {
                    Whole many = step_gather(step, dp, cp, micro);
                    assert_memory_equal(&many, &one, sizeof one);
                }
    }
}

/* Megatron's order: samples are those of the blend, in its order, whatever the layout; beyond the last is refused. */
static void blends_in_all_layouts(void **state)
{
    (void)state;
    Blend made;
    TokenFile token_files[] = { counted, lettered };
    BlendPart part[] = { { .prefix = folder, .weight = 3 }, { .prefix = folder, .weight = 1 } };
    BlendSpec list = { .part = part, .count = 2, .weighted = true };
    BlendRules spec = { .kind = BLEND_CORE, .split = "1", .wanted = 70 * GLOBAL, .sequence = S, .seed = 1234, .final_epoch_cut = 0.80, .surplus = 0.005 };
    assert_int_equal(blend_open(&made, token_files, &list, &spec, SPLIT_TRAIN), OK);
    assert_int_equal(made.samples, 70 * GLOBAL);
    blend = &made;
    for (int64_t step = 0; step < 70; step += 23) {
        Whole one = step_gather(step, 1, 1, GLOBAL);
        for (int sample = 0; sample < GLOBAL; sample++) {
            OrderReader reader = blend_read(blend, step * GLOBAL + sample);
            for (int i = 0; i <= S; i++) {
                int32_t token = token_file_token(reader.token_file, order_reader_next(&reader));
                if (i < S) assert_int_equal(one.token[sample][i], token);
                if (i > 0) assert_int_equal(one.target[sample][i - 1], token);
            }
        }
        for (int dp = 1; dp <= 4; dp *= 2)
            for (int cp = 1; cp <= 4; cp *= 2)
                for (int64_t micro = 1; micro * dp <= GLOBAL; micro *= 2) {
                    Whole many = step_gather(step, dp, cp, micro);
                    assert_memory_equal(&many, &one, sizeof one);
                }
    }
    Loader loader;
    assert_int_equal(loader_open_blend(&loader, blend, plain), OK);
    size_t mark = arena_mark(&host);
    Batch batch = loader_batch_new(&plain, &host);
    assert_int_equal(loader_fill(&loader, &batch, 69 * GLOBAL, 0, 100000), OK);
    assert_int_equal(loader_fill(&loader, &batch, 70 * GLOBAL, 0, 100000), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "sample 280 of an order built for 280 samples"));
    arena_reset(&host, mark);
    blend = NULL;
    blend_close(&made);
}

static void blend_refused(BlendRules spec, BlendSpec list, Status want, const char *word)
{
    Blend made;
    TokenFile token_files[] = { counted, lettered };
    assert_int_equal(blend_open(&made, token_files, &list, &spec, SPLIT_TRAIN), want);
    assert_non_null(strstr(fail_text(), word));
}

static void blends_refused(void **state)
{
    (void)state;
    BlendPart part[] = { { .prefix = folder, .weight = 3 }, { .prefix = folder, .weight = 1 } };
    BlendSpec list = { .part = part, .count = 2 };
    BlendRules spec = { .kind = BLEND_CORE, .split = "1", .wanted = 1000, .sequence = S, .seed = 1234, .final_epoch_cut = 0.80 };
    blend_refused(spec, list, BAD_OPTION, "one epoch of each: 125 samples to train, and the run takes 1000; give weights");
    spec.split = "0,1";
    blend_refused(spec, list, BAD_FILE, "0 to 0 of it have 0 tokens");
    spec.split = "1", list.weighted = true, part[1].weight = 0;
    blend_refused(spec, list, BAD_OPTION, "number 2 of 2");
    part[1].weight = 1, spec.wanted = ORDER_ONE_EPOCH;
    blend_refused(spec, list, BAD_OPTION, "give prefixes without weights");
    part[0].corpus = part[1].corpus = folder;
    blend_refused(spec, list, BAD_OPTION, "--data-order megatron-forks");
}

static void zigzag_parts(void **state)
{
    (void)state;
    Arena dry;
    arena_dry(&dry, "dry");
    LoaderConfig config = plain;
    Batch one = loader_batch_new(&config, &dry);
    assert_int_equal(one.part[0], 0);
    assert_int_equal(one.part[1], S / 2);
    config.cp = 2, config.cp_rank = 1;
    Batch two = loader_batch_new(&config, &dry);
    assert_int_equal(two.part[0], 2);
    assert_int_equal(two.part[1], 4);
    config.cp_rank = 0;
    two = loader_batch_new(&config, &dry);
    assert_int_equal(two.part[0], 0);
    assert_int_equal(two.part[1], 6);
    assert_null(two.token_i.data);
    assert_int_equal(two.token_i.dim[0], GLOBAL * S / 2);
    arena_close(&dry);
}

/* ---- order ---- */

/* A loader opened anew at step k stands where one which went through all steps stands; epochs differ and are permutations. */
static void order_is_a_pure_function(void **state)
{
    (void)state;
    Loader straight, resumed;
    size_t mark = arena_mark(&host);
    LoaderConfig config = plain;
    config.micro = config.global = 1;
    assert_int_equal(loader_open(&straight, &counted, "1", SPLIT_TRAIN, config), OK);
    assert_int_equal(straight.samples, (COUNTED - 1) / S);
    Batch a = loader_batch_new(&config, &host), b = loader_batch_new(&config, &host);
    int seen[2][(COUNTED - 1) / S] = { 0 }, moved = 0, first[(COUNTED - 1) / S];
    for (int64_t step = 0; step < 2 * straight.samples; step++) {
        assert_int_equal(loader_fill(&straight, &a, step, 0, 100000), OK);
        assert_int_equal(loader_open(&resumed, &counted, "1", SPLIT_TRAIN, config), OK);
        assert_int_equal(loader_fill(&resumed, &b, step, 0, 100000), OK);
        assert_memory_equal(a.token_i.data, b.token_i.data, S * sizeof(int32_t));
        int64_t epoch = step / straight.samples, i = step % straight.samples;
        int sample = (ints(a.token_i)[0] - 100) / S;
        assert_int_equal(seen[epoch][sample]++, 0);
        if (epoch == 0) first[i] = sample;
        else            moved += first[i] != sample;
    }
    assert_true(moved > straight.samples / 2);
    config.seed = 4321;
    assert_int_equal(loader_open(&resumed, &counted, "1", SPLIT_TRAIN, config), OK);
    int other = 0;
    for (int64_t step = 0; step < resumed.samples; step++) {
        assert_int_equal(loader_fill(&resumed, &b, step, 0, 100000), OK);
        other += (ints(b.token_i)[0] - 100) / S != first[step];
    }
    assert_true(other > resumed.samples / 2);
    arena_reset(&host, mark);
}

/* ---- masks: tokens 1 2 E 3 E E 4 5 | 6 ---- */

static void masks_by_hand(void **state)
{
    (void)state;
    static const int32_t token[S]    = { 1, 2, EOD, 3, EOD, EOD, 4, 5 };
    static const int32_t target[S]   = { 2, EOD, 3, EOD, EOD, 4, 5, 6 };
    static const int32_t position[S] = { 0, 1, 2, 0, 1, 0, 0, 1 };
    static const int32_t first[S]    = { 0, 0, 0, 3, 3, 5, 6, 6 };
    static const double  weight[S]   = { 1, 1, 0, 1, 0, 0, 1, 1 };
    for (int cp = 1; cp <= 2; cp++)
        for (int rank = 0; rank < cp; rank++) {
            Loader loader;
            size_t mark = arena_mark(&host);
            LoaderConfig config = plain;
            config.micro = config.global = 1, config.cp = cp, config.cp_rank = rank, config.loss_weight = cp == 1 ? F32 : F64;
            config.reset_positions = config.reset_attention = config.mask_eod = true;
            assert_int_equal(loader_open(&loader, &lettered, "1", SPLIT_TRAIN, config), OK);
            Batch batch = loader_batch_new(&config, &host);
            assert_int_equal(loader_fill(&loader, &batch, 0, 0, 10), OK);
            for (int row = 0; row < S / cp; row++) {
                int i = ints(batch.dropout_index_i)[row];
                double w = cp == 1 ? ((float *)batch.loss_weight_T.data)[row] : ((double *)batch.loss_weight_T.data)[row];
                assert_int_equal(ints(batch.token_i)[row], token[i]);
                assert_int_equal(ints(batch.target_i)[row], target[i]);
                assert_int_equal(ints(batch.position_i)[row], position[i]);
                assert_int_equal(ints(batch.key_range_i)[2 * row], first[i]);
                assert_int_equal(ints(batch.key_range_i)[2 * row + 1], i + 1);
                assert_true(w == weight[i]);
            }
            arena_reset(&host, mark);
        }
}

/* The same text: key ranges of the positions of u Ulysses ranks, and their bounds in each part */
/* Under a curriculum each step of GLOBAL samples counts a first part of them, in all layouts, and changes nothing else. */
static void lengths_of_steps(void **state)
{
    (void)state;
    for (int cp = 1; cp <= 2; cp++)
        for (int rank = 0; rank < cp; rank++)
            for (int64_t step = 0; step < 6; step++) {
                LoaderConfig config = plain;
                config.cp = cp, config.cp_rank = rank;
                Loader whole, part;
                size_t mark = arena_mark(&host);
                assert_int_equal(loader_open(&whole, &counted, "100", SPLIT_TRAIN, config), OK);
                config.lengths = (LengthSchedule){ .least = 2, .most = S, .multiple = 2, .steps = 4 };
                assert_int_equal(loader_open(&part, &counted, "100", SPLIT_TRAIN, config), OK);
                Batch a = loader_batch_new(&config, &host), b = loader_batch_new(&config, &host);
                assert_int_equal(loader_fill(&whole, &a, step * GLOBAL, 0, 100000), OK);
                assert_int_equal(loader_fill(&part, &b, step * GLOBAL, 0, 100000), OK);
                assert_memory_equal(a.token_i.data, b.token_i.data, tensor_bytes(a.token_i));
                assert_memory_equal(a.target_i.data, b.target_i.data, tensor_bytes(a.target_i));
                static const int lengths[] = { 2, 4, 6, 8, 8, 8 };                  /* 2 + 6 k / 4, even: 3.5, 5, 6.5, 8 */
                for (int64_t row = 0; row < GLOBAL * S / cp; row++) {
                    int index = ints(b.dropout_index_i)[row] % S;
                    assert_true(((const float *)b.loss_weight_T.data)[row] == (index < lengths[step] ? 1 : 0));
                }
                arena_reset(&host, mark);
            }
}

static void key_ranges_of_a_group(void **state)
{
    (void)state;
    static const int32_t first[S] = { 0, 0, 0, 3, 3, 5, 6, 6 };
    static const struct { int cp, u; } group[] = { { 1, 1 }, { 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 }, { 4, 4 } };
    for (size_t g = 0; g < sizeof group / sizeof *group; g++)
        for (int rank = 0; rank < group[g].cp; rank++) {
            Loader loader;
            size_t mark = arena_mark(&host);
            int groups = group[g].cp / group[g].u, mine = rank / group[g].u, s = S / groups, half = s / 2;
            LoaderConfig config = plain;
            config.micro = config.global = 1, config.cp = group[g].cp, config.cp_rank = rank;
            config.ulysses = group[g].u, config.reset_attention = true;
            assert_int_equal(loader_open(&loader, &lettered, "1", SPLIT_TRAIN, config), OK);
            Batch batch = loader_batch_new(&config, &host);
            assert_int_equal(loader_fill(&loader, &batch, 0, 0, 10), OK);
            assert_int_equal(batch.key_range_i.dim[1], s);
            for (int row = 0; row < s; row++) {
                int i = row < half ? mine * half + row : (2 * groups - 1 - mine) * half + row - half;
                assert_int_equal(ints(batch.key_range_i)[2 * row], first[i]);
                assert_int_equal(ints(batch.key_range_i)[2 * row + 1], i + 1);
            }
            for (int which = 0; which < 2; which++) {
                int at = which == 0 ? mine * half : (2 * groups - 1 - mine) * half;
                assert_int_equal(batch.seen[which].first, first[at]);
                assert_int_equal(batch.seen[which].end, at + half);
            }
            config.reset_attention = false;
            KeyBounds causal = loader_batch_new(&config, &host).seen[1];
            assert_int_equal(causal.first, 0);
            assert_int_equal(causal.end, (2 * groups - mine) * half);
            arena_reset(&host, mark);
        }
}

/* ---- splits ---- */

static void split_is(const char *split, SplitKind kind, int64_t first, int64_t tokens)
{
    Loader loader;
    assert_int_equal(loader_open(&loader, &counted, split, kind, plain), OK);
    assert_int_equal(loader.first, first);
    assert_int_equal(loader.tokens, tokens);
}

/* 10 documents of 100 tokens: a border at 2.5 goes to 2, at 7.5 to 8 (halves to even) */
static void splits_round_to_even(void **state)
{
    (void)state;
    split_is("969,30,1", SPLIT_TRAIN, 0, 1000);
    split_is("25,50,25", SPLIT_TRAIN, 0, 200);
    split_is("25,50,25", SPLIT_VALID, 200, 600);
    split_is("25,50,25", SPLIT_TEST,  800, 200);
    split_is("0.8,0.2",  SPLIT_VALID, 800, 200);
}

static void refused(const TokenFile *token_file, const char *split, SplitKind kind, LoaderConfig config, Status want, const char *word)
{
    Loader loader;
    assert_int_equal(loader_open(&loader, token_file, split, kind, config), want);
    assert_non_null(strstr(fail_text(), word));
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "x", "1,", "1,,1", "-1,2", "0,0,0", "1,1,1,1", "nan", "1e999", "1;2" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(&counted, bad[i], SPLIT_TRAIN, plain, BAD_OPTION, "--split");
    refused(&counted, "969,30,1", SPLIT_TEST, plain, BAD_FILE, "0 tokens");
    LoaderConfig config = plain;
    config.sequence = 1000;
    refused(&counted, "1", SPLIT_TRAIN, config, BAD_FILE, "takes 1001");
    config.sequence = 999;
    Loader loader;
    assert_int_equal(loader_open(&loader, &counted, "1", SPLIT_TRAIN, config), OK);
    config.sequence = 10, config.cp = 2;
    refused(&counted, "1", SPLIT_TRAIN, config, BAD_OPTION, "12 is");
    config = plain, config.dp = 3, config.micro = 2;
    refused(&counted, "1", SPLIT_TRAIN, config, BAD_OPTION, "6 is");
    config = plain, config.eod = -1, config.mask_eod = true;
    refused(&counted, "1", SPLIT_TRAIN, config, BAD_OPTION, "end-of-document");
    config = plain, config.global = (int64_t)1 << 30;
    refused(&counted, "1", SPLIT_TRAIN, config, BAD_OPTION, "2^31");
}

static void item_file_ids_are_named(void **state)
{
    (void)state;
    Loader loader;
    size_t mark = arena_mark(&host);
    assert_int_equal(loader_open(&loader, &lettered, "1", SPLIT_TRAIN, plain), OK);
    Batch batch = loader_batch_new(&plain, &host);
    assert_int_equal(loader_fill(&loader, &batch, 0, 0, EOD + 1), OK);
    assert_int_equal(loader_fill(&loader, &batch, 0, 0, EOD), BAD_FILE);
    assert_non_null(strstr(fail_text(), "byte 8: token 7"));
    arena_reset(&host, mark);
}

static int files_open(void **state)
{
    int32_t ids[COUNTED];
    int length[10];
    if (folder_open(state) || arena_open(&host, "host", 1 << 20) != OK) return -1;
    for (int i = 0; i < COUNTED; i++) ids[i] = 100 + i;
    for (int i = 0; i < 10; i++) length[i] = COUNTED / 10;
    pair_make(&counted, "counted", ids, length, 10, 100000);
    pair_make(&lettered, "lettered", (int32_t[]){ 1, 2, EOD, 3, EOD, EOD, 4, 5, 6 }, (int[]){ 3, 2, 1, 3 }, 4, 100000);
    return 0;
}

static int files_close(void **state)
{
    token_file_close(&counted);
    token_file_close(&lettered);
    arena_close(&host);
    return folder_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_see_the_same),
        cmocka_unit_test(blends_in_all_layouts),
        cmocka_unit_test(blends_refused),
        cmocka_unit_test(zigzag_parts),
        cmocka_unit_test(order_is_a_pure_function),
        cmocka_unit_test(masks_by_hand), cmocka_unit_test(lengths_of_steps), cmocka_unit_test(key_ranges_of_a_group),
        cmocka_unit_test(splits_round_to_even),
        cmocka_unit_test(refusals),
        cmocka_unit_test(item_file_ids_are_named),
    };
    return cmocka_run_group_tests(tests, files_open, files_close);
}
