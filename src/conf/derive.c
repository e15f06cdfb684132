/* Values that follow from other options, where nobody gave one. Whether they fit together is checked in
 * rules.c. */
#include "base/team.h"
#include "conf/conf.h"
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
    options_derived_int(o, OPTION_expert_ffn, o->ffn, "--ffn-hidden-size");
    options_derived_int(o, OPTION_expert_tensor_parallel, o->experts > 0 ? o->tensor_parallel : 1,
                        "--tensor-model-parallel-size");
    options_derived_int(o, OPTION_positions, o->sequence, "--seq-length");
    options_derived_int(o, OPTION_context, o->sequence, "--seq-length");
}

/* Ranks first: threads and the batch follow from them. */
static void derive_layout(Options *o)
{
    options_derived_int(o, OPTION_ranks, 1, "one process");
    options_derived_int(o, OPTION_threads, at_least(1, team_cores() / o->ranks), "the cores and --ranks");
    options_derived_int(o, OPTION_global_batch, o->micro_batch * options_data_parallel(o),
                        "--micro-batch-size and the data-parallel ranks");
    options_derived_real(o, OPTION_watchdog_seconds, 60 * o->timeout_minutes,
                         "--distributed-timeout-minutes");
}

int64_t options_data_parallel(const Options *o)
{
    return at_least(1, o->ranks / (o->tensor_parallel * o->pipeline_parallel * o->context_parallel));
}

Status options_derive(Options *o)
{
    derive_model(o);
    derive_layout(o);
    for (int i = 0; i < OPTIONS; i++) TRY(options_convert(o, i));       /* by the batch of derive_layout */
    if (o->train_iters) options_derived_int(o, OPTION_lr_decay_iters, o->train_iters, "--train-iters");
    return OK;
}
