/* Dense models against PyTorch in float64 (tests/oracles/parity.py and bloom.py made tests/golden/parity): loss, the gradient
 * of every tensor, 20 steps of AdamW in `ref`; then `cpu` against `ref`. */
#include "train/parity.h"

/* Of those with a window a query sees 3 positions, its own among them, but in every second layer all. */
typedef struct {
    const char *name; ModelName model; ActivationKind activation; bool tied, reset, window, one_p; NormPlacement placement;
    double factor, softcap, z;
    int mtp;
    double mtp_factor;
    PositionKind position;                             /* of MODEL_GPT; 0: learned */
    bool bloom;                       /* of transformers (tests/oracles/bloom.py), with two learning rates */
} Case;
static const Case cases[] = {
    { "gpt",              MODEL_GPT,   ACT_GELU_TANH,    true,  false, false },
    { "gpt_reset",        MODEL_GPT,   ACT_GELU_TANH,    true,  true,  false },
    { "gpt_untied_erf",   MODEL_GPT,   ACT_GELU_ERF,     false, false, false },
    { "llama",            MODEL_LLAMA, ACT_SWIGLU,       false, false, false },
    { "llama_reset",      MODEL_LLAMA, ACT_SWIGLU,       false, true,  false },
    { "llama_tied_relu2", MODEL_LLAMA, ACT_SQUARED_RELU, true,  false, false },
    { "llama_reset_window", MODEL_LLAMA, ACT_SWIGLU,     false, true,  true },
    { "olmo2",            MODEL_LLAMA, ACT_SWIGLU,       .placement = NORM_AFTER },
    { "gemma",            MODEL_LLAMA, ACT_GEGLU_TANH,   .tied = true, .one_p = true, .factor = 2.5 },
    { "gemma2",           MODEL_LLAMA, ACT_GEGLU_TANH,   .tied = true, .one_p = true, .placement = NORM_BEFORE_AND_AFTER,
      .factor = 2.5, .softcap = 1.5, .z = 0.02 },
    { "llama_mtp",        MODEL_LLAMA, ACT_SWIGLU,       .mtp = 2, .mtp_factor = 0.25 },
    { "llama_mtp_reset",  MODEL_LLAMA, ACT_SWIGLU,       .reset = true, .window = true, .mtp = 1, .mtp_factor = 0.5 },
    { "gemma2_mtp",       MODEL_LLAMA, ACT_GEGLU_TANH,   .tied = true, .one_p = true, .placement = NORM_BEFORE_AND_AFTER,
      .factor = 2.5, .softcap = 1.5, .z = 0.02, .mtp = 2, .mtp_factor = 0.5 },
    { "gpt_mtp",          MODEL_GPT,   ACT_GELU_TANH,    .mtp = 1, .mtp_factor = 0.5, .position = POSITION_NONE },
    { "gpt_1p_after",     MODEL_GPT,   ACT_QUICK_GEGLU,  .tied = true, .one_p = true, .placement = NORM_AFTER,
      .factor = 0.5, .softcap = 1.5 },
    { "bloom",            MODEL_GPT,   ACT_GELU_TANH,    .tied = true, .bloom = true },
};
enum { CASES = sizeof cases / sizeof *cases };

static TrainConfig config_of(const Case *c, const char *data)
{
    TrainConfig config = parity_config(c->model, data);
    config.model.activation = c->activation;  config.model.tied = c->tied;
    config.model.norm_placement = c->placement;  config.model.gains_zero_centred = c->one_p;
    config.model.embedding_factor = c->factor;  config.model.logit_softcap = c->softcap;
    config.model.logit_z_coefficient = c->z;
    config.model.mtp = c->mtp;  config.model.mtp_factor = c->mtp_factor;
    if (c->position == POSITION_NONE) config.model.position = POSITION_NONE;
    if (c->bloom) {
        config.model.position = POSITION_ALIBI;  config.model.embedding_norm = true;  config.model.ffn = 48;
        config.model.heads = config.model.groups = 6;  config.model.head_dim = 2;
        config.lr.decoupled = true;  config.lr.decoupled_peak = 3e-2;  config.lr.decoupled_low = 5e-4;
    }
    if (c->window) config.model.window = 3, config.model.unwindowed = layer_set_every(2);
    config.reset_attention = config.reset_positions = config.mask_eod = c->reset;
    return config;
}

static void test_cases(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("formula"));
    formula_corpus(data);
    for (int i = 0; i < CASES; i++) parity_compare("parity", cases[i].name, config_of(&cases[i], data));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
