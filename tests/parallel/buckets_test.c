/* How evenly shard ranks own what an optimizer updates in whole matrices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "parallel/buckets.h"
#include <cmocka.h>

static int64_t matrix_granule(const void *context, const Param *p) { (void)context; return param_is_layer_matrix(p) ? param_elements(p) : 1; }

/* Most elements of a rank / mean, over the blocks from `first` on; diffuse false: no block makes up for those before. */
static double unevenness(const ModelConfig *config, int64_t first, int d, int tp, bool diffuse)
{
    int64_t *begin = calloc((size_t)d + 1, sizeof *begin), *ahead = calloc((size_t)d + 1, sizeof *ahead);
    int64_t *owned = calloc((size_t)d, sizeof *owned), most = 0, all = 0;
    ParamRanks ranks = { .size = { .tp = tp, .cp = 1, .dp = d, .pp = 1, .etp = 1, .ep = 1, .edp = 1 } };
    for (int64_t i = first; i < params_blocks(config); i++) {
        ParamBlock block;
        params_block(&block, config, PARAMS_DENSE, i, &ranks);
        bucket_boundaries(begin, ahead, &block, d, (ParamGranule){ matrix_granule, NULL });
        assert_true(begin[0] == 0 && begin[d] >= block.count);
        for (int r = 0; r < d; r++) {
            assert_true(begin[r + 1] >= begin[r]);
            owned[r] += begin[r + 1] - begin[r];
            for (int p = 0; p < block.params; p++) {              /* no boundary within a matrix */
                const Param *x = &block.param[p];
                int64_t inside = begin[r] - x->at;
                if (inside > 0 && inside < param_elements(x)) assert_true(inside % matrix_granule(NULL, x) == 0);
            }
        }
        for (int r = 0; r <= d && !diffuse; r++) ahead[r] = 0;
    }
    for (int r = 0; r < d; r++) all += owned[r], most = owned[r] > most ? owned[r] : most;
    free(begin);
    free(ahead);
    free(owned);
    return (double)most * d / (double)all;
}

/* Llama-2 7B: what a rank owns of its layers is its optimizer states and its Newton-Schulz iterations. */
static void test_llama_7b(void **state)
{
    (void)state;
    ModelConfig config = { .layers = 32, .hidden = 4096, .ffn = 11008, .heads = 32, .groups = 32, .head_dim = 128,
        .vocabulary = 32000, .norm = NORM_RMS, .position = POSITION_ROPE, .activation = ACT_SWIGLU };
    static const struct { int d, tp; double most; } row[] = { { 8, 1, 1.1 }, { 64, 1, 1.6 }, { 8, 8, 1.1 }, { 2, 1, 1.02 } };
    for (int i = 0; i < 4; i++) {
        double even = unevenness(&config, 0, row[i].d, row[i].tp, true);
        printf("Llama 7B, %d shard ranks, tp %d: the most that a rank owns is %.3f times the mean (block by block: %.3f)\n", row[i].d,
               row[i].tp, even, unevenness(&config, 0, row[i].d, row[i].tp, false));
        assert_true(even <= row[i].most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_llama_7b) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
