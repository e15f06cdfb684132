/* Values that follow from other options, where nobody gave one. Whether they fit together is checked in
 * rules.c. */
#include <inttypes.h>
#include "base/team.h"
#include "conf/conf.h"
#include "conf/schedule.h"
#include "conf/value.h"

static int64_t at_least(int64_t low, int64_t value) { return value > low ? value : low; }

/* Shapes that Megatron-LM derives the same way, so that its scripts give the same model here. */
static void derive_model(Options *o)
{
    /* Megatron-LM's rule: 8/3 of the width, rounded down to a multiple of 64, keeps the parameters of the
     * three SwiGLU matrices about those of the two of a plain MLP. */
    int64_t gated = at_least(64, 4 * o->hidden * 2 / 3 / 64 * 64);
    if (o->swiglu) options_derived_int(o, OPTION_ffn, gated, "--hidden-size and --swiglu");
    else           options_derived_int(o, OPTION_ffn, 4 * o->hidden, "--hidden-size");
    options_derived_int(o, OPTION_groups, o->heads, "--num-attention-heads");
    if (o->hidden % o->heads == 0)                       /* else rule_dividing says what would work */
        options_derived_int(o, OPTION_kv_channels, o->hidden / o->heads,
                            "--hidden-size and --num-attention-heads");
    options_derived_real(o, OPTION_latent_epsilon, o->epsilon, "--norm-epsilon");
    options_derived_int(o, OPTION_expert_ffn, o->ffn, "--ffn-hidden-size");
    options_derived_int(o, OPTION_expert_tensor_parallel, o->experts > 0 ? o->tensor_parallel : 1,
                        "--tensor-model-parallel-size");
    options_derived_int(o, OPTION_positions, o->sequence, "--seq-length");
    options_derived_int(o, OPTION_context, o->sequence, "--seq-length");
}

/* Of global batch = micro-batch x gradient accumulation steps x data-parallel ranks the one that nobody gave.
 * Where it would be no whole number rule_accumulation says so. */
static void derive_batch(Options *o)
{
    int64_t dp = options_data_parallel(o), unit = o->accumulation * dp;
    OptionSource *micro = &o->source[OPTION_micro_batch];
    bool follows = o->accumulation && micro->kind <= SOURCE_DEFAULT && options_said(o, OPTION_global_batch);
    if (follows && o->global_batch % unit == 0) {
        micro->kind = SOURCE_DERIVED;
        options_derived_int(o, OPTION_micro_batch, o->global_batch / unit,
                            "--global-batch-size, --gradient-accumulation-steps and the data-parallel ranks");
    }
    options_derived_int(o, OPTION_global_batch, o->micro_batch * at_least(dp, unit),
                        o->accumulation ? "--micro-batch-size, --gradient-accumulation-steps and the "
                                          "data-parallel ranks"
                                        : "--micro-batch-size and the data-parallel ranks");
}

/* The type of a preset yields to one that somebody gave, and to --device ref, which has one of its own. */
static void derive_type(Options *o)
{
    OptionSource *fp16 = &o->source[OPTION_fp16];
    bool other = o->bf16 && o->source[OPTION_bf16].kind > SOURCE_PRESET;
    if (!o->fp16 || fp16->kind != SOURCE_PRESET) return;
    if (!other && o->device.value != CHOICE_device_ref) return;
    o->fp16 = false;
    fp16->kind = SOURCE_DEFAULT;
}

/* Ranks first: threads and the batch follow from them. */
static void derive_layout(Options *o)
{
    bool two = o->compare != NULL;                       /* models, each with ranks of its own */
    options_derived_int(o, OPTION_threads, at_least(1, team_cores() / (o->ranks * (two ? 2 : 1))),
                        two ? "the cores, --ranks and --compare" : "the cores and --ranks");
    derive_batch(o);
    options_derived_real(o, OPTION_watchdog_seconds, 60 * o->timeout_minutes,
                         "--distributed-timeout-minutes");
}

/* Weight decay that changes does so over the whole run. */
static void derive_weight_decay(Options *o)
{
    bool samples = o->train_samples > 0;
    int64_t whole = samples ? o->train_samples : o->train_iters * o->global_batch;
    if (o->weight_decay_style.value == CHOICE_weight_decay_style_constant || !whole) return;
    options_derived_int(o, OPTION_weight_decay_samples, whole,
                        samples ? NAMED(OPTION_train_samples) : "--train-iters and --global-batch-size");
}

/* Tokens become samples, and samples the steps that they are with the batch sizes of the run. */
static Status derive_duration(Options *o)
{
    BatchStep step[BATCH_STEPS_MAX];
    LengthSchedule lengths;
    int steps;
    int64_t last;
    char said[SAID];
    TRY(options_last_batch(&last, o));
    if (last) options_derived_int(o, OPTION_global_batch, last, "--step-batch-size-schedule");
    TRY(options_lengths(&lengths, o));
    if (o->train_tokens)
        options_derived_int(o, OPTION_train_samples, options_token_samples(o),
                            lengths.steps ? "--train-tokens and --seq-length-warmup"
                                          : "--train-tokens and --seq-length");
    if (!o->train_samples && !o->train_tokens) {
        if (o->train_iters) options_derived_int(o, OPTION_lr_decay_iters, o->train_iters, "--train-iters");
        return OK;
    }
    OptionIndex option = o->train_tokens ? OPTION_train_tokens : OPTION_train_samples;
    TRY(options_batch(step, &steps, o));
    int64_t whole = batch_schedule_steps((BatchSchedule){ step, steps }, 0, o->train_samples);
    if (whole == 0 && step[0].size > 0)
        return fail(BAD_OPTION, "%s is less than one step, which has %" PRId64 " %s; give that or more",
                    options_typed(said, sizeof said, o, option),
                    step[0].size * (o->train_tokens ? o->sequence : 1),
                    o->train_tokens ? "tokens" : "samples");
    options_derived_int(o, OPTION_train_iters, whole, NAMED(option));
    if (!options_said(o, OPTION_lr_decay_iters))
        options_derived_int(o, OPTION_lr_decay_samples, o->train_samples, NAMED(option));
    return OK;
}

Status options_derive(Options *o)
{
    derive_model(o);
    derive_type(o);
    options_derived_int(o, OPTION_ranks, 1, "one process");
    derive_layout(o);
    TRY(derive_duration(o));
    derive_weight_decay(o);
    return OK;
}
