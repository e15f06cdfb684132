/* The options of the optimizer and of the learning rate as the structs of optim/. */
#include "cli/setup/setup.h"

static LrStyle lr_style(const Options *o)
{
    switch ((enum ChoiceOf_lr_decay_style)o->lr_decay_style.value) {
    case CHOICE_lr_decay_style_linear:   return LR_LINEAR;
    case CHOICE_lr_decay_style_cosine:   return LR_COSINE;
    case CHOICE_lr_decay_style_constant: return LR_CONSTANT;
    }
    NO_SUCH_CHOICE(o->lr_decay_style);
}

LrSchedule setup_lr(const Options *o)
{
    return (LrSchedule){ lr_style(o), o->lr, o->min_lr, o->lr_warmup_iters, o->lr_decay_iters };
}

static MuonScale muon_scale(const Options *o)
{
    switch ((enum ChoiceOf_muon_scale_mode)o->muon_scale_mode.value) {
    case CHOICE_muon_scale_mode_spectral:      return MUON_SPECTRAL;
    case CHOICE_muon_scale_mode_unit_rms_norm: return MUON_UNIT_RMS;
    case CHOICE_muon_scale_mode_shape_scaling: return MUON_SHAPE;
    }
    NO_SUCH_CHOICE(o->muon_scale_mode);
}

static MuonCoefficients muon_coefficients(const Options *o)
{
    switch ((enum ChoiceOf_muon_coefficient_type)o->muon_coefficient_type.value) {
    case CHOICE_muon_coefficient_type_simple:  return MUON_SIMPLE;
    case CHOICE_muon_coefficient_type_quintic: return MUON_QUINTIC;
    }
    NO_SUCH_CHOICE(o->muon_coefficient_type);
}

static bool muon_narrow(const Options *o)
{
    switch ((enum ChoiceOf_muon_fp32_matmul_prec)o->muon_fp32_matmul_prec.value) {
    case CHOICE_muon_fp32_matmul_prec_low:
    case CHOICE_muon_fp32_matmul_prec_medium: return true;
    case CHOICE_muon_fp32_matmul_prec_high:   return false;
    }
    NO_SUCH_CHOICE(o->muon_fp32_matmul_prec);
}

OptimizerSettings setup_optimizer(const Options *o)
{
    return (OptimizerSettings){ .beta1 = o->adam_beta1, .beta2 = o->adam_beta2, .epsilon = o->adam_eps,
        .decay = o->weight_decay, .stochastic = o->stochastic_rounding, .momentum = o->sgd_momentum,
        .least_ratio = o->lamb_min_coeff, .most_ratio = o->lamb_max_coeff,
        .muon = { .momentum = o->muon_momentum, .nesterov = o->muon_nesterov,
                  .steps = (int)o->muon_num_ns_steps, .scale = muon_scale(o),
                  .extra = o->muon_extra_scale_factor, .coefficients = muon_coefficients(o),
                  .narrow = muon_narrow(o) } };
}
