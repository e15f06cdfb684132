/* Threads change nothing: three steps with 1, 2 and 3 of them leave the same checkpoint to the byte, losses
 * and norms too. The model on `cpu` is large enough that each kind of op is cut into several chunks. Two
 * ranks with teams of their own as well. A family of kernels gives the same bits on every machine, and all
 * ranks and a resumed run have the same family. */
#include "train/harness.h"
#include "base/log.h"
#include "base/seam.h"

enum { STEPS = 3 };

static TrainConfig wide_config(ModelName model, const char *data)
{
    TrainConfig config = tiny_config(model, "cpu", data);
    config.model.layers = 1;  config.model.hidden = 72;  config.model.ffn = 240;  config.model.head_dim = 18;
    config.model.vocabulary = 120;
    config.model.positions = config.model.sequence = 144;
    config.micro = 2;  config.global = 2;  config.eod = 119;
    config.lr.warmup = 2 * 2;  config.lr.decay = 20 * 2;                                      /* samples */
    return config;
}

static void assert_same_file(const char *one, const char *other, const char *name)
{
    FileMap map[2];
    char path[2][1024];
    snprintf(path[0], sizeof path[0], "%s/step_%08d/%s", one, STEPS, name);
    snprintf(path[1], sizeof path[1], "%s/step_%08d/%s", other, STEPS, name);
    for (int i = 0; i < 2; i++) if (file_map(&map[i], path[i]) != OK) fail_msg("%s", fail_text());
    bool same = map[0].size == map[1].size && !memcmp(map[0].data, map[1].data, map[0].size);
    if (!same) fail_msg("%s and %s differ", path[0], path[1]);
    for (int i = 0; i < 2; i++) file_unmap(&map[i]);
}

static void assert_same_checkpoint(const char *one, const char *other, const ModelConfig *shape)
{
    for (int64_t b = 0; b < params_blocks(shape); b++) {
        ParamBlock block;
        char name[64];
        params_block(&block, shape, PARAMS_DENSE, b, NULL);
        snprintf(name, sizeof name, "block_%04d.safetensors", (int)b);
        if (block.params > 0) assert_same_file(one, other, name);
    }
    assert_same_file(one, other, "manifest.json");
}

/* losses: [STEPS] of the run, or NULL */
static void compare(const char *word, TrainConfig config, int ranks, double *losses)
{
    char folder[3][512];
    Job job[3];
    for (int i = 0; i < 3; i++) {
        snprintf(folder[i], sizeof folder[i], "%s/%s-%d", scratch_folder(), word, i + 1);
        job[i] = (Job){ .config = config, .ranks = ranks, .steps = STEPS, .save = folder[i] };
        job[i].config.threads = i + 1;
        job_run(&job[i]);
    }
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(job[i].loss, job[0].loss, sizeof job[0].loss);
        assert_memory_equal(job[i].norm, job[0].norm, sizeof job[0].norm);
        assert_same_checkpoint(folder[0], folder[i], &config.model);
    }
    for (int i = 0; losses && i < STEPS; i++) losses[i] = job[0].loss[i];
    printf("%-12s %d ranks: loss %.9f -> %.9f under 1, 2 and 3 threads, checkpoints the same\n", word, ranks,
           job[0].loss[0], job[0].loss[STEPS - 1]);
}

static void test_cpu(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("wide"));
    corpus_make(data, 120);
    compare("gpt",   wide_config(MODEL_GPT,   data), 1, NULL);
    compare("llama", wide_config(MODEL_LLAMA, data), 1, NULL);
    TrainConfig halves = wide_config(MODEL_GPT, data);
    halves.tp = 2;
    halves.sequence_parallel = true;
    compare("halves", halves, 2, NULL);
    halves.precision = (PrecisionChoice){ .mixed = MIXED_BF16, .message_bf16 = true, .state_bf16 = { true, true } };
    halves.settings.stochastic = true;
    compare("bf16", halves, 2, NULL);
    halves.precision.fp8 = (Fp8Choice){ .recipe = FP8_CURRENT, .hybrid = true };
    compare("fp8 current", halves, 2, NULL);
    halves.precision.fp8 = (Fp8Choice){ .recipe = FP8_DELAYED, .hybrid = true, .history = 2 };
    compare("fp8 delayed", halves, 2, NULL);
    TrainConfig fp16 = wide_config(MODEL_LLAMA, data);
    fp16.precision.mixed = MIXED_F16;
    fp16.loss_scale = 64;
    compare("fp16", fp16, 1, NULL);
}

static void test_ref(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("tiny"));
    corpus_make(data, 61);
    compare("ref", tiny_config(MODEL_GPT, "ref", data), 1, NULL);
}

/* ---- families of kernels ---- */

/* The losses that a family gives on any machine: not what is right, which parity_test says, but what must
 * not depend on the machine. A change of kernels that changes sums on purpose changes them; the failure prints
 * the new ones. */
static const double losses_of[2][STEPS] = {
    { 0x1.38ba39215a241p+2, 0x1.37ef595a7598ep+2, 0x1.388bf72c0397dp+2 },     /* portable */
    { 0x1.38ba3925dbf19p+2, 0x1.37ef594a2d3adp+2, 0x1.388bf742785d7p+2 },     /* all others, with fused multiply-adds */
};

static void test_families_same_everywhere(void **state)
{
    (void)state;
    char data[512];
    int others = 0;
    snprintf(data, sizeof data, "%s", scratch_path("wide"));
    corpus_make(data, 120);
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++) {
        if (!kernel_family_runs(f)) continue;
        TrainConfig config = wide_config(MODEL_GPT, data);
        config.kernels = f;
        double losses[STEPS];
        compare(kernel_family_name(f), config, 1, losses);
        if (memcmp(losses, losses_of[f != KERNELS_PORTABLE], sizeof losses) == 0) continue;
        printf("the losses of %s kernels are %a, %a, %a\n", kernel_family_name(f), losses[0], losses[1], losses[2]);
        others++;
    }
    assert_int_equal(others, 0);
}

/* Rank 1 passes for a machine with AVX2 and nothing newer. */
static bool older_machine(int rank, const char *kernels) { return rank != 1 || !strstr(kernels, "avx512"); }

static void see_family(Trainer *t, void *context) { ((KernelFamily *)context)[t->mesh.rank] = t->queue.kernels; }

/* The families that two ranks have in a run of one step. */
static void families_of_ranks(KernelFamily seen[2], TrainConfig config)
{
    Job job = { .config = config, .ranks = 2, .steps = 1, .look = see_family, .context = seen };
    job_run(&job);
    assert_int_equal(seen[0], seen[1]);
}

static Status opened(Transport *transport, void *config)
{
    Trainer t;
    Status status = trainer_start(&t, config, transport);
    trainer_close(&t);
    return status;
}

static void test_ranks_agree_on_family(void **state)
{
    (void)state;
    char data[512];
    KernelFamily seen[2];
    snprintf(data, sizeof data, "%s", scratch_path("tiny"));
    corpus_make(data, 61);
    TrainConfig config = tiny_config(MODEL_GPT, "cpu", data);
    families_of_ranks(seen, config);
    assert_int_equal(seen[0], kernel_family_best());
    seam.runs = older_machine;
    bool avx2 = kernel_family_runs(KERNELS_AVX2), neon = kernel_family_runs(KERNELS_NEON);
    KernelFamily common = avx2 ? KERNELS_AVX2 : neon ? KERNELS_NEON : KERNELS_PORTABLE;
    families_of_ranks(seen, config);
    assert_int_equal(seen[0], common);
    config.kernels_before = "portable";              /* a checkpoint's, where no option says otherwise */
    families_of_ranks(seen, config);
    assert_int_equal(seen[0], KERNELS_PORTABLE);
    config.kernels_before = "avx512";                /* not one that all ranks run, and not one that is known */
    families_of_ranks(seen, config);
    assert_int_equal(seen[0], common);
    config.kernels_before = "amx";
    families_of_ranks(seen, config);
    assert_int_equal(seen[0], common);
    config.kernels = KERNELS_AVX512;
    assert_int_equal(transport_threads_run(2, opened, &config), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "--kernels avx512: this machine does not have these instructions; every rank runs "));
    seam = seam_system;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cpu), cmocka_unit_test(test_ref),
        cmocka_unit_test(test_families_same_everywhere), cmocka_unit_test(test_ranks_agree_on_family) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
