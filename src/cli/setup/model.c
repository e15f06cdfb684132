/* The options of the model as the struct of model/model_config.h. */
#include "cli/choice.h"
#include "cli/setup/setup.h"
#include "conf/layer_pattern.h"

static CHOICE_AS( PositionKind, position_kind, position,
    TO( CHOICE_position_learned_absolute, POSITION_LEARNED )
    TO( CHOICE_position_rope,             POSITION_ROPE )
    TO( CHOICE_position_yarn,             POSITION_ROPE )
    TO( CHOICE_position_alibi,            POSITION_ALIBI )
    TO( CHOICE_position_none,             POSITION_NONE )
    TO( CHOICE_position_sinusoidal,       POSITION_SINUSOIDAL ) )

static QkNorm qk_norm_kind(const Options *o)
{
    if (!o->qk_layernorm || o->mla) return QK_NORM_NONE;             /* there it means norms of latents */
    return o->qk_norm_width.value == CHOICE_qk_norm_width_all ? QK_NORM_ALL : QK_NORM_HEAD;
}

static CHOICE_AS( NormPlacement, norm_placement, norm_placement,
    TO( CHOICE_norm_placement_before, NORM_BEFORE )
    TO( CHOICE_norm_placement_after,  NORM_AFTER )
    TO( CHOICE_norm_placement_both,   NORM_BEFORE_AND_AFTER ) )

static ActivationKind activation_kind(const Options *o)
{
    bool erf = o->gelu_approximate.value == CHOICE_gelu_approximate_none;
    if (o->swiglu)       return ACT_SWIGLU;
    if (o->quick_geglu)  return ACT_QUICK_GEGLU;
    if (o->squared_relu) return ACT_SQUARED_RELU;
    if (o->relu)         return ACT_RELU;
    if (o->geglu)        return erf ? ACT_GEGLU_ERF : ACT_GEGLU_TANH;
    return erf ? ACT_GELU_ERF : ACT_GELU_TANH;
}

static CHOICE_AS( MoeBalance, balance_kind, balancing,
    TO( CHOICE_balancing_sequence, MOE_BALANCE_SEQUENCE )
    TO( CHOICE_balancing_micro,    MOE_BALANCE_MICRO_BATCH )
    TO( CHOICE_balancing_none,     MOE_BALANCE_NONE ) )

/* Without a coefficient an auxiliary loss is not computed. */
static MoeConfig setup_moe(const Options *o)
{
    uint8_t experts[LAYER_PATTERN_MAX] = { 0 };
    bool sigmoid = o->router_score.value == CHOICE_router_score_sigmoid;
    MoeConfig moe = { .topk = o->router_topk, .shared_ffn = o->shared_ffn, .shared_gate = o->shared_gate,
        .rule = { .score = sigmoid ? ROUTE_SIGMOID : ROUTE_SOFTMAX, .pre_softmax = o->router_pre_softmax,
                  .groups = o->router_groups, .group_topk = o->router_group_topk,
                  .group_best = o->router_group_best, .scale = o->router_scale },
        .balance = o->balance_coefficient > 0 ? balance_kind(o) : MOE_BALANCE_NONE,
        .coefficient = o->balance_coefficient, .z_coefficient = o->z_coefficient, .bias = o->expert_bias,
        .bias_rate = o->expert_bias_rate, .capacity_factor = o->capacity_factor,
        .by_position = o->drop_policy.value == CHOICE_drop_policy_position };
    if (o->experts == 0) return (MoeConfig){ 0 };
    CHECK(options_expert_layers(experts, o) == OK, "%s", fail_text());                  /* rule_experts */
    for (int64_t l = 0; l < o->layers; l++)
        if (!experts[l]) moe.dense_layers[l / 64] |= (uint64_t)1 << l % 64;
    return moe;
}

/* Their patterns are those that rule_window and rule_rope let through. */
static LayerSet unwindowed(const Options *o)
{
    uint8_t windowed[LAYER_PATTERN_MAX] = { 0 };
    LayerSet set = { { 0 } };
    CHECK(options_window_layers(windowed, o) == OK, "%s", fail_text());
    for (int64_t l = 0; l < LAYER_PATTERN_MAX && l < o->layers; l++)
        if (!windowed[l]) layer_set_add(&set, l);
    return set;
}

static LayerSet no_rope(const Options *o)
{
    uint8_t none[LAYER_PATTERN_MAX] = { 0 };
    LayerSet set = { { 0 } };
    CHECK(options_no_rope_layers(none, o) == OK, "%s", fail_text());
    for (int64_t l = 0; l < LAYER_PATTERN_MAX && l < o->layers; l++)
        if (none[l]) layer_set_add(&set, l);
    return set;
}

static RopeConfig setup_rope(const Options *o)
{
    RopeConfig rope = { .base = o->rope_base, .local_base = o->rope_base_local, .channels = options_rotary(o),
        .interleaved = o->rotary_interleaved, .interpolation = o->rope_interpolation };
    if (o->rope_scaling)
        rope.scaling = ROPE_LLAMA3, rope.factor = o->rope_factor, rope.low = o->rope_low,
        rope.high = o->rope_high, rope.original = (double)o->rope_original;
    if (o->position.value == CHOICE_position_yarn)
        rope.scaling = ROPE_YARN, rope.factor = o->yarn_factor, rope.original = (double)o->yarn_original,
        rope.fast = o->yarn_fast, rope.slow = o->yarn_slow, rope.rounded = !o->yarn_exact,
        rope.mscale = o->mscale, rope.mscale_all = o->mscale_all;
    return rope;
}

/* The sequence of an evaluation is one window. */
ModelConfig setup_model(const Options *o)
{
    return (ModelConfig){
        .layers = o->layers, .mtp = o->mtp_layers, .mtp_factor = o->mtp_factor,
        .hidden = o->hidden, .ffn = o->ffn, .heads = o->heads, .groups = o->groups,
        .head_dim = o->mla ? o->qk_head_dim + o->qk_rope_dim : o->kv_channels,
        .vocabulary = o->vocabulary, .positions = o->positions,
        .experts = o->experts, .expert_ffn = o->expert_ffn, .moe = setup_moe(o),
        .sequence = o->command == FOR_EVAL ? o->context : o->sequence,
        .norm_placement = norm_placement(o), .gains_zero_centred = o->layernorm_1p,
        .embedding_factor = o->embedding_factor, .embedding_norm = o->embed_layernorm,
        .logit_softcap = o->logit_softcap,
        .logit_z_coefficient = o->logit_z_coefficient,
        .norm = o->norm.value == CHOICE_norm_rmsnorm ? NORM_RMS : NORM_LAYER, .position = position_kind(o),
        .window = options_window(o), .unwindowed = unwindowed(o), .activation = activation_kind(o),
        .epsilon = o->epsilon, .rope = setup_rope(o), .no_rope = no_rope(o),
        .hidden_dropout = o->hidden_dropout,
        .attention_dropout = o->attention_dropout, .init_std = o->init_std,
        .embedding_std = o->embedding_std, .xavier = o->init_xavier,
        .qkv_bias = !o->disable_bias || o->add_qkv_bias,
        .out_bias = !o->disable_bias || o->add_out_bias,
        .mlp_bias = !o->disable_bias || o->add_mlp_bias,
        .qk_norm = qk_norm_kind(o), .qk_norm_decay = o->qk_norm_decay, .decay_all = o->decay_all,
        .latent = !o->mla ? (LatentConfig){ 0 }
            : (LatentConfig){ .query_rank = o->q_lora_rank, .kv_rank = o->kv_lora_rank,
                              .rope_dim = o->qk_rope_dim, .value_dim = o->v_head_dim,
                              .epsilon = o->latent_epsilon },
        .softmax_scale = o->softmax_scale, .softcap = o->softcap,
        .tied = !o->untie,
    };
}
