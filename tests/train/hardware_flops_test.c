/* What recomputation adds to the FLOPs of a token is what the operations of all ranks do more in a step than without it, to the last
 * FLOP, by every mode, with pipelines, experts and multi-token prediction; and the peaks of the table. */
#include "tensor/gpu_model.h"
#include "train/hardware_flops.h"
#include "train/layouts.h"
#include "train/moe_layouts.h"

static double step_flops(const TrainConfig *config, int ranks)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
        Trainer t;
        ArenaSizes sizes;
        Transport *transport = transport_dry_open(r, ranks);
        if (trainer_open(&t, config, transport, NULL) != OK) fail_msg("%s", fail_text());
        trainer_count(&t, &sizes);
        sum += queue_flops(&t.queue);
        trainer_close(&t);
        transport->close(transport);
    }
    return sum;
}

static void compare_modes(const char *name, TrainConfig config, int ranks)
{
    static const Recompute modes[] = {
        { 0, RECOMPUTE_UNIFORM, 1 }, { 0, RECOMPUTE_UNIFORM, 2 }, { 0, RECOMPUTE_UNIFORM, 3 }, { 0, RECOMPUTE_BLOCK, 1 },
        { RECOMPUTE_CORE_ATTN, 0, 0 }, { RECOMPUTE_LAYERNORM, 0, 0 }, { RECOMPUTE_MLP, 0, 0 }, { RECOMPUTE_MLP_ACT, 0, 0 },
        { RECOMPUTE_MOE, 0, 0 }, { RECOMPUTE_MOE_ACT, 0, 0 }, { RECOMPUTE_SHARED_EXPERTS, 0, 0 },
        { RECOMPUTE_CORE_ATTN | RECOMPUTE_MLP | RECOMPUTE_MOE, 0, 0 },
    };
    double tokens = (double)(config.global * config.model.sequence), without = step_flops(&config, ranks);
    double model = hardware_flops(&config, false);
    if (model != model_flops(&config.model, false)) fail_msg("%s: HFU is not MFU without recomputation", name);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        config.recompute = modes[m];
        double more = step_flops(&config, ranks) - without, told = (hardware_flops(&config, false) - model) * tokens;
        /* the model's FLOPs have no router's */
        double routers = config.recompute.method ? 2 * tokens * (double)(config.model.hidden * config.model.experts * config.model.layers) : 0;
        if (more < told - 1e-9 * without || more > told + routers + 1e-9 * without)
            fail_msg("%s, mode %zu: operations do %.17g FLOPs more, and hardware_flops says %.17g", name, m, more, told);
        if (hardware_flops(&config, true) > hardware_flops(&config, false)) fail_msg("%s: causal is more", name);
    }
}

static void test_dense(void **state)
{
    (void)state;
    TrainConfig config = tiny_config(MODEL_GPT, "cpu", "none");
    compare_modes("gpt", config, 1);
    config.pp = 2;
    compare_modes("gpt, pp 2", config, 2);
    config.pp = 2, config.chunks = 2, config.schedule = SCHEDULE_INTERLEAVED;
    compare_modes("gpt, interleaved", config, 2);
    config = tiny_config(MODEL_LLAMA, "cpu", "none");
    compare_modes("llama", config, 1);
    config.model.mtp = 2, config.model.mtp_factor = 0.5;
    compare_modes("llama, mtp", config, 1);
}

static void test_experts(void **state)
{
    (void)state;
    compare_modes("experts", moe_config(MODEL_GPT, "cpu", "none"), 1);
    compare_modes("shared expert", moe_config(MODEL_LLAMA, "cpu", "none"), 1);
}

static void test_table(void **state)
{
    (void)state;
    static const struct { const char *reported, *name; double fp16, bf16, fp32; } known[] = {
        { "Tesla V100-SXM2-32GB", "V100", 125, 0, 15.7 },          { "Tesla V100-PCIE-16GB", "V100-PCIE-16GB", 112, 0, 14 },
        { "NVIDIA A100-SXM4-80GB", "A100", 312, 312, 19.5 },       { "NVIDIA A100-SXM4-40GB", "A100-40GB", 312, 312, 19.5 },
        { "NVIDIA H100 80GB HBM3", "H100", 989, 989, 67 },         { "NVIDIA H100 PCIe", "H100-PCIE", 756, 756, 51 },
        { "NVIDIA H100 NVL", "H100-NVL", 835, 835, 60 },           { "NVIDIA H200", "H200", 989, 989, 67 },
        { "NVIDIA B200", "B200", 2250, 2250, 75 },                 { "AMD Instinct MI250X", "MI250X", 191.5, 191.5, 47.9 },
        { "AMD Instinct MI300X", "MI300X", 1307.4, 1307.4, 163.4 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const GpuModel *model = gpu_model_reported(known[i].reported);
        assert_non_null(model);
        assert_string_equal(model->name, known[i].name);
        assert_ptr_equal(model, gpu_model_named(known[i].name));
        assert_true(gpu_model_peak(model, F16) == known[i].fp16 * 1e12);
        assert_true(gpu_model_peak(model, BF16) == known[i].bf16 * 1e12);
        assert_true(gpu_model_peak(model, F32) == known[i].fp32 * 1e12);
        assert_true(gpu_model_peak(model, F64) == 0);
    }
    assert_null(gpu_model_reported("NVIDIA GeForce RTX 4090"));
    assert_null(gpu_model_named("H10"));
    assert_non_null(gpu_model_named("h100-pcie"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_dense), cmocka_unit_test(test_experts), cmocka_unit_test(test_table) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
