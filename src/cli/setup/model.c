/* The options of the model as the struct of model/model_config.h. */
#include "cli/setup/setup.h"
#include "conf/layer_pattern.h"

static PositionKind position_kind(const Options *o)
{
    switch ((enum ChoiceOf_position)o->position.value) {
    case CHOICE_position_learned_absolute: return POSITION_LEARNED;
    case CHOICE_position_rope:             return POSITION_ROPE;
    case CHOICE_position_none:             return POSITION_NONE;
    }
    NO_SUCH_CHOICE(o->position);
}

static NormKind norm_kind(const Options *o)
{
    switch ((enum ChoiceOf_norm)o->norm.value) {
    case CHOICE_norm_layernorm: return NORM_LAYER;
    case CHOICE_norm_rmsnorm:   return NORM_RMS;
    }
    NO_SUCH_CHOICE(o->norm);
}

static MoeBalance balance_kind(const Options *o)
{
    switch ((enum ChoiceOf_balancing)o->balancing.value) {
    case CHOICE_balancing_sequence: return MOE_BALANCE_SEQUENCE;
    case CHOICE_balancing_micro:    return MOE_BALANCE_MICRO_BATCH;
    case CHOICE_balancing_none:     return MOE_BALANCE_NONE;
    }
    NO_SUCH_CHOICE(o->balancing);
}

static RouteScore route_score(const Options *o)
{
    switch ((enum ChoiceOf_router_score)o->router_score.value) {
    case CHOICE_router_score_softmax: return ROUTE_SOFTMAX;
    case CHOICE_router_score_sigmoid: return ROUTE_SIGMOID;
    }
    NO_SUCH_CHOICE(o->router_score);
}

static bool drops_by_position(const Options *o)
{
    switch ((enum ChoiceOf_drop_policy)o->drop_policy.value) {
    case CHOICE_drop_policy_probs:    return false;
    case CHOICE_drop_policy_position: return true;
    }
    NO_SUCH_CHOICE(o->drop_policy);
}

/* Without a coefficient an auxiliary loss is not computed. */
static MoeConfig setup_moe(const Options *o)
{
    uint8_t experts[LAYER_PATTERN_MAX] = { 0 };
    MoeConfig moe = { .topk = o->router_topk, .shared_ffn = o->shared_ffn,
        .rule = { .score = route_score(o), .pre_softmax = o->router_pre_softmax,
                  .groups = o->router_groups, .group_topk = o->router_group_topk, .scale = o->router_scale },
        .balance = o->balance_coefficient > 0 ? balance_kind(o) : MOE_BALANCE_NONE,
        .coefficient = o->balance_coefficient, .z_coefficient = o->z_coefficient, .bias = o->expert_bias,
        .bias_rate = o->expert_bias_rate, .capacity_factor = o->capacity_factor,
        .by_position = drops_by_position(o) };
    if (o->experts == 0) return (MoeConfig){ 0 };
    CHECK(layer_pattern(experts, o->moe_layer_freq, o->layers) == OK, "%s", fail_text());  /* rule_experts */
    for (int64_t l = 0; l < o->layers; l++)
        if (!experts[l]) moe.dense_layers[l / 64] |= (uint64_t)1 << l % 64;
    return moe;
}

/* The sequence of an evaluation is one window. */
ModelConfig setup_model(const Options *o)
{
    return (ModelConfig){
        .layers = o->layers, .hidden = o->hidden, .ffn = o->ffn, .heads = o->heads, .groups = o->groups,
        .head_dim = o->kv_channels, .vocabulary = o->vocabulary, .positions = o->positions,
        .experts = o->experts, .expert_ffn = o->expert_ffn, .moe = setup_moe(o),
        .sequence = o->command == FOR_EVAL ? o->context : o->sequence,
        .norm = norm_kind(o), .position = position_kind(o),
        .window = options_window(o), .window_skip = o->window_skip,
        .activation = o->swiglu ? ACT_SWIGLU : o->squared_relu ? ACT_SQUARED_RELU : ACT_GELU_TANH,
        .epsilon = o->epsilon, .rope_base = o->rope_base, .hidden_dropout = o->hidden_dropout,
        .attention_dropout = o->attention_dropout, .init_std = o->init_std,
        .qkv_bias = !o->disable_bias || o->add_qkv_bias,
        .out_bias = !o->disable_bias, .mlp_bias = !o->disable_bias, .tied = !o->untie,
    };
}
