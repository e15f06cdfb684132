/* The options of types of numbers as the structs of tensor/precision.h and tensor/step_state.h. */
#include "cli/setup/setup.h"

static bool bf16_first_moment(const Options *o)
{
    switch ((enum ChoiceOf_exp_avg_dtype)o->exp_avg_dtype.value) {
    case CHOICE_exp_avg_dtype_fp32: return false;
    case CHOICE_exp_avg_dtype_bf16: return true;
    }
    NO_SUCH_CHOICE(o->exp_avg_dtype);
}

static bool bf16_second_moment(const Options *o)
{
    switch ((enum ChoiceOf_exp_avg_sq_dtype)o->exp_avg_sq_dtype.value) {
    case CHOICE_exp_avg_sq_dtype_fp32: return false;
    case CHOICE_exp_avg_sq_dtype_bf16: return true;
    }
    NO_SUCH_CHOICE(o->exp_avg_sq_dtype);
}

static bool fp8_hybrid(const Options *o)
{
    switch ((enum ChoiceOf_fp8_format)o->fp8_format.value) {
    case CHOICE_fp8_format_none:
    case CHOICE_fp8_format_e4m3:   return false;
    case CHOICE_fp8_format_hybrid: return true;
    }
    NO_SUCH_CHOICE(o->fp8_format);
}

static Fp8Recipe fp8_recipe(const Options *o)
{
    switch ((enum ChoiceOf_fp8_recipe)o->fp8_recipe.value) {
    case CHOICE_fp8_recipe_delayed:    return FP8_DELAYED;
    case CHOICE_fp8_recipe_tensorwise: return FP8_CURRENT;
    }
    NO_SUCH_CHOICE(o->fp8_recipe);
}

static bool fp8_most_recent(const Options *o)
{
    switch ((enum ChoiceOf_fp8_algo)o->fp8_algo.value) {
    case CHOICE_fp8_algo_most_recent: return true;
    case CHOICE_fp8_algo_max:         return false;
    }
    NO_SUCH_CHOICE(o->fp8_algo);
}

/* eval and generate compute in BF16: the scales are of training. */
static Fp8Choice setup_fp8(const Options *o)
{
    if (o->fp8_format.value == CHOICE_fp8_format_none || o->command != FOR_TRAIN)
        return (Fp8Choice){ .recipe = FP8_NONE };
    return (Fp8Choice){ .recipe = fp8_recipe(o), .hybrid = fp8_hybrid(o),
        .bf16_weight_gradient = o->no_fp8_wgrad,
        .bf16_first_layers = o->first_last_bf16 ? o->start_bf16 : 0,
        .bf16_last_layers = o->first_last_bf16 ? o->end_bf16 : 0,
        .history = o->fp8_history, .most_recent = fp8_most_recent(o), .margin = (int)o->fp8_margin };
}

PrecisionChoice setup_precision(const Options *o)
{
    return (PrecisionChoice){ .mixed = o->bf16 ? MIXED_BF16 : o->fp16 ? MIXED_F16 : MIXED_NONE,
        .message_bf16 = o->grad_reduce_in_bf16,
        .state_bf16 = { bf16_first_moment(o), bf16_second_moment(o) }, .fp8 = setup_fp8(o) };
}

/* A loss scale that is given is constant, as Megatron-LM's. */
LossScaling setup_scaling(const Options *o)
{
    return (LossScaling){ .dynamic = o->fp16 && !(o->loss_scale > 0), .minimum = o->min_loss_scale,
                          .window = o->loss_scale_window, .hysteresis = o->hysteresis };
}
