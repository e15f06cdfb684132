/* Mixture of experts: a run is interrupted and resumed, with the same bits under its layout (expert, expert-tensor
 * and expert-data parallelism) and as an uninterrupted run under others, biases of experts too. Forms of balancing
 * and dropping that depend on the micro-batch give the same bits twice. */
#include "train/moe_layouts.h"

static const MoeLayout from[] = {
    { { "tp2 seq dp2 zero1, etp2 ep2",  4, 2, 1, 1, 1, 1, true,  SCHEDULE_1F1B }, 2, 2 },
    { { "pp2 dp4 zero3, ep2 edp2",      8, 1, 1, 2, 1, 3, false, SCHEDULE_ZB_H1 }, 1, 2 },
};
static const MoeLayout into[] = {
    { { "one rank",                     1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 1, 1 },
    { { "dp4 zero2, ep4",               4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B }, 1, 4 },
    { { "tp2 pp2, ep2",                 4, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B }, 1, 2 },
    { { "tp2 cp2, etp2",                4, 2, 2, 1, 1, 0, false, SCHEDULE_1F1B }, 2, 1 },
};
enum { FROM = sizeof from / sizeof *from, INTO = sizeof into / sizeof *into };

/* The biases of a checkpoint are those of another to the bit, and not zero. */
static void biases_check(const char *word, int step)
{
    char path[2][1024];
    int found = 0;
    for (int block = 0; block < 8; block++) {
        SafeFile f;
        snprintf(path[0], sizeof path[0], "%s/%s-whole/step_%08d/block_%04d.safetensors", scratch_folder(), word, step, block);
        if (!file_exists(path[0])) continue;
        if (safetensors_open(&f, path[0]) != OK) fail_msg("%s", fail_text());
        for (int i = 0; i < f.tensors; i++) {
            const SafeTensor *x = &f.tensor[i];
            if (!strstr(x->name, "expert_bias")) continue;
            const double *bias = (const double *)(f.map.data + x->at);
            double size = 0;
            for (size_t n = 0; n < x->bytes / sizeof *bias; n++) size += fabs(bias[n]);
            assert_true(x->dtype == F64 && size > 0);
            found++;
            for (int k = 0; k <= INTO; k++) {
                SafeFile other;
                snprintf(path[1], sizeof path[1], "%s/%s-again%d/step_%08d/block_%04d.safetensors", scratch_folder(), word, k, step, block);
                if (safetensors_open(&other, path[1]) != OK) fail_msg("%s", fail_text());
                const SafeTensor *y = safetensors_find(&other, x->name);
                assert_non_null(y);
                if (memcmp(bias, other.map.data + y->at, x->bytes) != 0) fail_msg("%s of %s", x->name, path[1]);
                safetensors_close(&other);
            }
        }
        safetensors_close(&f);
    }
    assert_int_equal(found, 2);                                        /* layers 1 and 3 of llama have experts */
}

static void test_resume(void **state)
{
    (void)state;
    TrainConfig config = moe_config(MODEL_LLAMA, "ref", scratch_path("corpus"));
    Setup next[INTO];
    for (int i = 0; i < INTO; i++) next[i] = moe_setup(config, &into[i]);
    for (int i = 0; i < FROM; i++) {
        char word[32];
        Setup start = moe_setup(config, &from[i]);
        snprintf(word, sizeof word, "resume%d", i);
        resume_compare(word, &start, next, INTO, turns(4, 1), 1e-12, 1e-11);
        biases_check(word, 2 * turns(4, 1));
    }
}

/* Under each layout of expert parallelism, on `cpu` in float32 and bf16. */
static void test_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < FROM; i++)
        for (int mixed = 0; mixed < 2; mixed++) {
            char word[32];
            Setup start = moe_setup(moe_config(MODEL_GPT, "cpu", scratch_path("corpus")), &from[i]);
            if (mixed) start.config.precision = (PrecisionChoice){ .mixed = MIXED_BF16 };
            snprintf(word, sizeof word, "bits%d%d", i, mixed);
            resume_compare(word, &start, NULL, 0, 2, 0, 0);
        }
}

/* The forms that no other layout repeats */
static void test_forms_of_micro_batch(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++)
        for (int i = 0; i < FROM; i++) {
            char word[32];
            Setup start = moe_setup(moe_config(MODEL_GPT, "cpu", scratch_path("corpus")), &from[i]);
            MoeConfig *moe = &start.config.model.moe;
            start.config.micro = 2;
            if (form == 0) moe->balance = MOE_BALANCE_MICRO_BATCH;
            else           moe->capacity_factor = 1, moe->by_position = form == 2;
            snprintf(word, sizeof word, "form%d%d", form, i);
            resume_compare(word, &start, NULL, 0, 2, 0, 0);
        }
}

/* What a micro-batch's form depends on is the micro-batch alone: of one sequence it is that of the sequence, under
 * every layout. */
static void test_micro_batch_of_one_sequence(void **state)
{
    (void)state;
    TrainConfig config = moe_config(MODEL_GPT, "ref", scratch_path("corpus"));
    char alone[512];
    Job one = one_run(config, "sequence", 3, -1, alone);
    config.model.moe.balance = MOE_BALANCE_MICRO_BATCH;
    for (int i = 0; i < FROM; i++) {
        Setup setup = moe_setup(config, &from[i]);
        one_compare(&one, &setup, "sequence");
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_resume), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_forms_of_micro_batch), cmocka_unit_test(test_micro_batch_of_one_sequence) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
