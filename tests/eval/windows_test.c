/* Every id but the first is predicted once, from the ids before it in its window, under every division of the batch among ranks. With an
 * overlap the window of a target is Megatron-LM's: the first S targets are the first window's, the next `stride` the second's, and so on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "eval/windows.h"
#include <cmocka.h>

enum { S = 8, IDS = 4 * S + 4 };

/* Where in its window the token before target t is; the formula of one target, not of windows. */
static int64_t position_of(int64_t t, int64_t stride)
{
    int64_t window = t <= S ? 0 : (t - S + stride - 1) / stride;
    return t - 1 - window * stride;
}

static void count_cut(const int32_t *ids, int64_t count, int64_t overlap, LoaderConfig config)
{
    int predicted[IDS] = { 0 };
    for (config.dp_rank = 0; config.dp_rank < config.dp; config.dp_rank++)
        for (config.cp_rank = 0; config.cp_rank < config.cp; config.cp_rank++) {
            Arena host;
            assert_int_equal(arena_open(&host, "host", 1 << 16), OK);
            Batch batch = loader_batch_new(&config, &host);
            Windows w = { .ids = ids, .count = count, .config = config, .overlap = overlap };
            for (int64_t step = 0; step < windows_steps(&w); step++)
                for (int micro = 0; micro < config.global / (config.micro * config.dp); micro++) {
                    windows_fill(&w, &batch, step, micro);
                    for (int64_t row = 0; row < tensor_count(batch.token_i); row++) {
                        if (((double *)batch.loss_weight_T.data)[row] == 0) continue;
                        int32_t token = ((int32_t *)batch.token_i.data)[row], target = ((int32_t *)batch.target_i.data)[row];
                        assert_int_equal(target, token + 1);                   /* ids count up here, so an id is its own place */
                        assert_int_equal(((int32_t *)batch.position_i.data)[row], position_of(target, S - overlap));
                        predicted[target]++;
                    }
                }
            arena_close(&host);
        }
    for (int64_t i = 0; i < count; i++) assert_int_equal(predicted[i], i > 0);
}

static void test_each_once(void **state)
{
    (void)state;
    int32_t ids[IDS];
    for (int i = 0; i < IDS; i++) ids[i] = i;
    for (int64_t count = 2; count <= IDS; count++)
        for (int dp = 1; dp <= 3; dp++)
            for (int cp = 1; cp <= 2; cp++)
                for (int micro = 1; micro <= 2; micro++)
                    for (int64_t overlap = 0; overlap < S; overlap++)
                        count_cut(ids, count, overlap, (LoaderConfig){ .sequence = S, .micro = micro, .global = 2 * micro * dp, .dp = dp, .cp = cp, .eod = -1, .loss_weight = F64 });
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
