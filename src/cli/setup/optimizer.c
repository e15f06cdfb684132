/* The options of the optimizer, the learning rate and types of numbers as the structs of optim/, tensor/. */
#include "cli/choice.h"
#include "cli/setup/setup.h"
#include <math.h>
#include "conf/schedule.h"

static CHOICE_AS( LrStyle, lr_style, lr_decay_style,
    TO( CHOICE_lr_decay_style_linear,              LR_LINEAR )
    TO( CHOICE_lr_decay_style_cosine,              LR_COSINE )
    TO( CHOICE_lr_decay_style_constant,            LR_CONSTANT )
    TO( CHOICE_lr_decay_style_inverse_square_root, LR_INVERSE_SQUARE_ROOT )
    TO( CHOICE_lr_decay_style_wsd,                 LR_WSD ) )

static CHOICE_AS( WsdStyle, wsd_style, lr_wsd_style,
    TO( CHOICE_lr_wsd_style_exponential, WSD_EXPONENTIAL )
    TO( CHOICE_lr_wsd_style_linear,      WSD_LINEAR )
    TO( CHOICE_lr_wsd_style_cosine,      WSD_COSINE )
    TO( CHOICE_lr_wsd_style_minus_sqrt,  WSD_MINUS_SQRT ) )

static CHOICE_AS( LrRule, lr_rule, lr_rule,
    TO( CHOICE_lr_rule_immediate, LR_IMMEDIATE )
    TO( CHOICE_lr_rule_delayed,   LR_DELAYED )
    TO( CHOICE_lr_rule_clipped,   LR_CLIPPED ) )

static CHOICE_AS( LrCount, lr_count, lr_unit,
    TO( CHOICE_lr_unit_samples,      LR_SAMPLES )
    TO( CHOICE_lr_unit_steps,        LR_SAMPLES )
    TO( CHOICE_lr_unit_tokens,       LR_TOKENS )
    TO( CHOICE_lr_unit_decay_tokens, LR_DECAY_TOKENS ) )

LrSchedule setup_lr(const Options *o)
{
    ScheduleSamples s = options_schedule_samples(o);
    LengthSchedule  lengths;
    Status          status = options_lengths(&lengths, o);
    CHECK(status == OK, "%s", fail_text());                                          /* a rule has read them */
    return (LrSchedule){ .style = lr_style(o),
        .rule = lr_rule(o),
        .warmup_style = o->lr_warmup_style.value == CHOICE_lr_warmup_style_log ? WARMUP_LOG : WARMUP_LINEAR,
        .step = (double)o->global_batch, .count = lr_count(o), .lengths = lengths,
        .by_steps = o->lr_unit.value == CHOICE_lr_unit_steps, .peak = o->lr, .low = o->min_lr,
        .warmup = s.warmup, .decay = s.decay, .init = o->lr_warmup_init,
        .wsd = wsd_style(o), .wsd_decay = s.wsd,
        .decoupled = options_said(o, OPTION_decoupled_lr), .decoupled_peak = o->decoupled_lr,
        .decoupled_low = options_said(o, OPTION_decoupled_min_lr) ? o->decoupled_min_lr : o->min_lr };
}

WeightDecaySchedule setup_weight_decay(const Options *o)
{
    WeightDecaySchedule s = { .start = o->start_weight_decay, .end = o->end_weight_decay,
                              .samples = options_schedule_samples(o).weight_decay };
    switch ((enum ChoiceOf_weight_decay_style)o->weight_decay_style.value) {
    case CHOICE_weight_decay_style_constant: return (WeightDecaySchedule){ .end = o->weight_decay };
    case CHOICE_weight_decay_style_linear:   s.style = WEIGHT_DECAY_LINEAR; return s;
    case CHOICE_weight_decay_style_cosine:   s.style = WEIGHT_DECAY_COSINE; return s;
    }
    NO_SUCH_CHOICE(o->weight_decay_style);
}

static CHOICE_AS( MuonScale, muon_scale, muon_scale_mode,
    TO( CHOICE_muon_scale_mode_spectral,      MUON_SPECTRAL )
    TO( CHOICE_muon_scale_mode_unit_rms_norm, MUON_UNIT_RMS )
    TO( CHOICE_muon_scale_mode_shape_scaling, MUON_SHAPE ) )

OptimizerSettings setup_optimizer(const Options *o)
{
    bool unbounded = o->optimizer.value == CHOICE_optimizer_ipex_lamb;
    bool quintic = o->muon_coefficient_type.value == CHOICE_muon_coefficient_type_quintic;
    bool subspace = o->optimizer.value == CHOICE_optimizer_galore ||
                    o->optimizer.value == CHOICE_optimizer_galore8bit;
    return (OptimizerSettings){ .beta1 = o->adam_beta1, .beta2 = o->adam_beta2, .epsilon = o->adam_eps,
        .coupled = o->coupled_decay, .uncorrected = o->adam_eps_uncorrected,
        .stochastic = o->stochastic_rounding, .momentum = o->sgd_momentum, .nesterov = o->sgd_nesterov,
        .sophia_rho = o->sophia_rho, .estimate_interval = o->sophia_interval,
        .lion_beta1 = o->lion_beta1, .lion_beta2 = o->lion_beta2,
        .least_ratio = unbounded ? 0 : o->lamb_min_coeff,
        .most_ratio = unbounded ? INFINITY : o->lamb_max_coeff,
        .adafactor = { .decay_rate = o->adafactor_decay_rate, .clip = o->adafactor_clip,
                       .epsilon1 = o->adafactor_eps1, .epsilon2 = o->adafactor_eps2 },
        .sizes = { .rank = o->galore_rank, .longest = o->max_preconditioner_dim },
        .renewal = subspace ? o->galore_gap : o->precondition_frequency, .galore_scale = o->galore_scale,
        .onebit = { .mean_beta = o->onebit_coeff_beta, .factor_low = o->onebit_factor_min,
                    .factor_high = o->onebit_factor_max, .factor_step = o->onebit_factor_step },
        .freeze = o->onebit_freeze,
        .shampoo_epsilon = o->shampoo_epsilon, .gram_beta = o->soap_shampoo_beta,
        .muon = { .momentum = o->muon_momentum, .nesterov = o->muon_nesterov,
                  .steps = (int)o->muon_num_ns_steps, .scale = muon_scale(o),
                  .extra = o->muon_extra_scale_factor, .coefficients = quintic ? MUON_QUINTIC : MUON_SIMPLE,
                  .narrow = o->muon_fp32_matmul_prec.value != CHOICE_muon_fp32_matmul_prec_high } };
}

/* ---- types of numbers ---- */

/* eval and generate compute in BF16: the scales are of training. */
static Fp8Choice setup_fp8(const Options *o)
{
    if (o->fp8_format.value == CHOICE_fp8_format_none || o->command != FOR_TRAIN)
        return (Fp8Choice){ .recipe = FP8_NONE };
    return (Fp8Choice){
        .recipe = o->fp8_recipe.value == CHOICE_fp8_recipe_tensorwise ? FP8_CURRENT : FP8_DELAYED,
        .hybrid = o->fp8_format.value == CHOICE_fp8_format_hybrid,
        .bf16_weight_gradient = o->no_fp8_wgrad,
        .bf16_first_layers = o->first_last_bf16 ? o->start_bf16 : 0,
        .bf16_last_layers = o->first_last_bf16 ? o->end_bf16 : 0,
        .history = o->fp8_history, .most_recent = o->fp8_algo.value == CHOICE_fp8_algo_most_recent,
        .margin = (int)o->fp8_margin };
}

PrecisionChoice setup_precision(const Options *o)
{
    return (PrecisionChoice){ .mixed = o->bf16 ? MIXED_BF16 : o->fp16 ? MIXED_F16 : MIXED_NONE,
        .message_bf16 = o->grad_reduce_in_bf16,
        .state_bf16 = { o->exp_avg_dtype.value == CHOICE_exp_avg_dtype_bf16,
                        o->exp_avg_sq_dtype.value == CHOICE_exp_avg_sq_dtype_bf16 }, .fp8 = setup_fp8(o) };
}

/* A loss scale that is given is constant, as Megatron-LM's. */
LossScaling setup_scaling(const Options *o)
{
    return (LossScaling){ .dynamic = o->fp16 && !(o->loss_scale > 0), .minimum = o->min_loss_scale,
                          .window = o->loss_scale_window, .hysteresis = o->hysteresis };
}
