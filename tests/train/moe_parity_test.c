/* Models with experts against PyTorch in float64 (tests/oracles/moe.py made tests/golden/moe): every rule of the
 * router, auxiliary losses, biases, capacity and a shared expert, as parity_test.c does for dense models. */
#include "train/parity.h"

typedef struct { const char *name; ModelName model; int64_t experts, micro; MoeConfig moe; bool reset; } Case;
#define RULE(...) .rule = { __VA_ARGS__ }
static const Case cases[] = {
    { "mixtral", MODEL_LLAMA, 4, 1, { .topk = 2, RULE(ROUTE_SOFTMAX, .scale = 1) }, false },
    { "gpt_pre_softmax", MODEL_GPT, 4, 1, { .topk = 2, RULE(ROUTE_SOFTMAX, .pre_softmax = true, .scale = 1.5),
        .balance = MOE_BALANCE_SEQUENCE, .coefficient = 0.05, .z_coefficient = 0.01 }, false },
    { "gpt_reset_top1", MODEL_GPT, 4, 1, { .topk = 1, RULE(ROUTE_SOFTMAX, .pre_softmax = true, .scale = 1),
        .balance = MOE_BALANCE_SEQUENCE, .coefficient = 0.05 }, true },
    { "llama_micro_batch", MODEL_LLAMA, 4, 4, { .topk = 2, RULE(ROUTE_SOFTMAX, .scale = 1),
        .balance = MOE_BALANCE_MICRO_BATCH, .coefficient = 0.05 }, false },
    { "deepseek", MODEL_LLAMA, 8, 2, { .topk = 4, RULE(ROUTE_SIGMOID, .groups = 4, .group_topk = 2, .scale = 2.5),
        .shared_ffn = 6, .balance = MOE_BALANCE_SEQUENCE, .coefficient = 0.02, .bias = true, .bias_rate = 0.01,
        .dense_layers = { 1 } }, false },
    { "sigmoid_top1", MODEL_LLAMA, 3, 2, { .topk = 1, RULE(ROUTE_SIGMOID, .scale = 0.7) }, false },
    { "capacity_probs", MODEL_LLAMA, 4, 4, { .topk = 2, RULE(ROUTE_SOFTMAX, .scale = 1), .capacity_factor = 1 }, false },
    { "capacity_position", MODEL_GPT, 4, 1, { .topk = 2, RULE(ROUTE_SOFTMAX, .scale = 1), .capacity_factor = 0.75,
        .by_position = true }, false },
};
enum { CASES = sizeof cases / sizeof *cases };

static TrainConfig config_of(const Case *c, const char *data)
{
    TrainConfig config = parity_config(c->model, data);
    config.model.qkv_bias = config.model.out_bias = config.model.mlp_bias = false;
    config.model.experts = c->experts;  config.model.expert_ffn = 10;
    config.model.moe = c->moe;
    config.micro = c->micro;
    config.reset_attention = config.reset_positions = config.mask_eod = c->reset;
    return config;
}

static void test_cases(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("formula"));
    formula_corpus(data);
    for (int i = 0; i < CASES; i++) parity_compare("moe", cases[i].name, config_of(&cases[i], data));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
