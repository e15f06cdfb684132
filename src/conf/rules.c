/* Which values fit together. A rule changes nothing and may log what has no effect; its message names the
 * option as typed, its value, and what would work. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "conf/generation/generation.h"
#include "conf/conf.h"
#include "conf/layer_pattern.h"
#include "conf/rules.h"
#include "conf/schedule.h"
#include "conf/value.h"
#include "conf/wants.h"

enum { LISTED = 16 };

static int64_t value_of(const Options *o, OptionIndex option)
{
    return *(const OptionINT *)option_field_of(o, option);
}

/* --- one divides another -------------------------------------------------------------------------------- */

/* either: the whole may divide the divisor instead. Tensor-parallel ranks share key-value heads, or more
 * ranks than heads hold copies of them. */
static const struct { OptionIndex divisor, whole; bool either; } dividing[] = {
    { OPTION_heads,             OPTION_hidden, false },
    { OPTION_groups,            OPTION_heads,  false },
    { OPTION_tensor_parallel,   OPTION_heads,  false },
    { OPTION_tensor_parallel,   OPTION_groups, true },
    { OPTION_tensor_parallel,   OPTION_ffn,    false },
};
enum { DIVIDING = COUNT(dividing) };

static bool fits(const Options *o, int row, int64_t value)
{
    int64_t whole = value_of(o, dividing[row].whole);
    bool own = o->kv_channels > 0 || o->mla;                      /* heads whose width is an option's */
    if (dividing[row].whole == OPTION_hidden && own) return true;
    return whole % value == 0 || (dividing[row].either && value % whole == 0);
}

/* A value of `divisor` that all its rules allow */
static bool would_divide(const Options *o, OptionIndex divisor, int64_t value)
{
    for (int i = 0; i < DIVIDING; i++)
        if (dividing[i].divisor == divisor && !fits(o, i, value)) return false;
    return true;
}

/* "1, 2, 4, 8 or 16": what divides, at most LISTED of it */
static const char *cure_divisor(char out[SAID], const Options *o, OptionIndex divisor, int64_t whole)
{
    int64_t works[LISTED];
    int count = 0;
    bool more = false;
    for (int64_t v = 1; v <= whole && v <= option_rows[divisor].high && !more; v++) {
        if (whole % v || !would_divide(o, divisor, v)) continue;
        if (count < LISTED) works[count++] = v;
        else more = true;
    }
    out[0] = 0;
    for (int i = 0; i < count; i++) message_choice(out, SAID, i, count + more, "%" PRId64, works[i]);
    if (more) message_add(out, SAID, " ...");
    return out;
}

static Status rule_dividing(const Options *o)
{
    for (int i = 0; i < DIVIDING; i++) {
        OptionIndex divisor = dividing[i].divisor, whole = dividing[i].whole;
        char cure[SAID];
        if (fits(o, i, value_of(o, divisor))) continue;
        int64_t most = value_of(o, dividing[i].either ? OPTION_heads : whole);
        return fail(BAD_OPTION, "%s does not divide %s%s; give %s", TYPED(divisor), TYPED(whole),
                    dividing[i].either ? ", nor does that divide it" : "",
                    cure_divisor(cure, o, divisor, most));
    }
    return OK;
}

/* --- one is a multiple of a product --------------------------------------------------------------------- */

/* why: what the unit is made of, as typed */
static Status want_multiple(const Options *o, OptionIndex option, int64_t unit, const char *why)
{
    char cure[SAID];
    if (value_of(o, option) % unit == 0) return OK;
    return fail(BAD_OPTION, "%s is not a multiple of %" PRId64 " (%s); give %s", TYPED(option), unit, why,
                message_multiples(cure, SAID, value_of(o, option), unit));
}

/* The product of the parallel axes divides the ranks; what is left over are the data-parallel ranks. */
static Status rule_ranks(const Options *o)
{
    static const OptionIndex axis[] = { OPTION_tensor_parallel, OPTION_pipeline_parallel,
                                        OPTION_context_parallel };
    char why[SAID] = "";
    int64_t unit = 1;
    for (size_t i = 0; i < COUNT(axis); i++) {
        int64_t size = value_of(o, axis[i]);
        if (size > 1) message_item(why, sizeof why, " x ", "%s %" PRId64, NAMED(axis[i]), size);
        unit *= size;
    }
    message_add(why, sizeof why, "; data-parallel ranks are ranks / (tp x pp x cp)");
    return want_multiple(o, OPTION_ranks, unit, why);
}

/* Ring attention gives each rank two parts of the sequence, one early and one late, so that causal work is
 * even. Sequence parallelism shards the tokens that are left over its tensor-parallel ranks. */
static Status rule_sequence(const Options *o)
{
    char why[SAID];
    int64_t cp = o->context_parallel, tp = o->sequence_parallel ? o->tensor_parallel : 1;
    OptionIndex sharded = o->command == FOR_EVAL ? OPTION_context : OPTION_sequence;
    snprintf(why, sizeof why, "two parts for each rank of %s %" PRId64, NAMED(OPTION_context_parallel), cp);
    if (o->command & (FOR_GENERATE | FOR_SERVE)) return OK;            /* it pads prompts */
    if (cp > 1) TRY(want_multiple(o, sharded, 2 * cp, why));
    if (o->micro_batch * value_of(o, sharded) / cp % tp == 0) return OK;
    snprintf(why, sizeof why, "%s shares its tokens over %s %" PRId64, NAMED(OPTION_sequence_parallel),
             NAMED(OPTION_tensor_parallel), tp);
    return want_multiple(o, sharded, 2 * cp * tp, why);
}

/* --- the pipeline --------------------------------------------------------------------------------------- */

static bool is_schedule(const Options *o, int choice) { return o->pipeline_schedule.value == choice; }

/* Virtual stages: their number follows from the layers of each or is given; a layout of its own tells it as
 * well (cli/setup/train_config.c). */
static Status rule_virtual_stages(const Options *o)
{
    int64_t pp = o->pipeline_parallel, layers = o->layers_per_chunk;
    OptionIndex option = layers ? OPTION_layers_per_chunk : OPTION_virtual_stages;
    bool v_shaped = is_schedule(o, CHOICE_pipeline_schedule_zb_v);
    char why[SAID];
    if (layers && o->virtual_stages)
        return fail(BAD_OPTION, "%s and %s say the same in two ways; leave one of them out",
                    TYPED(OPTION_layers_per_chunk), TYPED(OPTION_virtual_stages));
    int64_t each = o->virtual_stages ? o->virtual_stages : v_shaped ? 2 : 1;
    bool one_each = !o->pipeline_layout && !o->count_embedding && !o->count_loss;
    if (!layers && one_each && pp * each > o->layers)
        return fail(BAD_OPTION, "%s leaves some of the %" PRId64 " virtual stages of %s without a layer; "
                    "give %" PRId64 " layers or more", TYPED(OPTION_layers), pp * each,
                    TYPED(OPTION_pipeline_parallel), pp * each);
    if ((!layers && !o->virtual_stages) || pp == 1) return OK;
    if (v_shaped && (layers || o->virtual_stages != 2))
        return fail(BAD_OPTION,
                    "%s and %s: zb-v has two virtual stages on each stage; leave the second out",
                    TYPED(OPTION_pipeline_schedule), TYPED(option));
    if (!v_shaped && !is_schedule(o, CHOICE_pipeline_schedule_1f1b))
        return fail(BAD_OPTION, "%s and %s: %s has one chunk a stage; leave one of them out",
                    TYPED(OPTION_pipeline_schedule), TYPED(option), o->pipeline_schedule.word);
    snprintf(why, sizeof why, "%s %" PRId64 " x %s %" PRId64, NAMED(OPTION_pipeline_parallel), pp,
             NAMED(OPTION_layers_per_chunk), layers);
    return layers ? want_multiple(o, OPTION_layers, pp * layers, why) : OK;
}

/* Whether a step's micro-batches fill the groups is checked for each batch size of the run (rule_batch). */
static Status rule_groups(const Options *o)
{
    bool interleaved = o->layers_per_chunk || o->virtual_stages || o->pipeline_layout;
    if (o->micro_group && !interleaved)
        return fail(BAD_OPTION, "%s has no effect without %s or %s; give one of them, or leave it out",
                    TYPED(OPTION_micro_group), NAMED(OPTION_layers_per_chunk), NAMED(OPTION_virtual_stages));
    if (o->extra_warmup && interleaved && !o->pipeline_layout)
        return fail(BAD_OPTION, "%s and virtual stages: an interleaved pipeline has a longer warm-up "
                    "already; leave it out", TYPED(OPTION_extra_warmup));
    return OK;
}

/* --- the model ------------------------------------------------------------------------------------------ */

static Status rule_activation(const Options *o)
{
    static const OptionIndex kind[] = { OPTION_swiglu, OPTION_squared_relu, OPTION_relu, OPTION_geglu,
                                        OPTION_quick_geglu };
    int first = -1;
    for (size_t i = 0; i < COUNT(kind); i++) {
        if (!*(const OptionFLAG *)option_field_of(o, kind[i])) continue;
        if (first >= 0)
            return fail(BAD_OPTION, "%s and %s: a model has one activation; leave one out", TYPED(first),
                        TYPED(kind[i]));
        first = (int)kind[i];
    }
    if (o->gelu_approximate.value == CHOICE_gelu_approximate_none && first >= 0 && first != OPTION_geglu)
        return fail(BAD_OPTION, "%s has no effect with %s, which is no GELU; leave one out",
                    TYPED(OPTION_gelu_approximate), TYPED(first));
    return OK;
}

/* Learned positions end at --max-position-embeddings. */
static Status rule_model(const Options *o)
{
    bool learned = o->position.value == CHOICE_position_learned_absolute;
    if (learned && o->sequence > o->positions)
        return fail(BAD_OPTION, "%s is longer than %s; give at most %" PRId64, TYPED(OPTION_sequence),
                    TYPED(OPTION_positions), o->positions);
    if (learned && o->command == FOR_EVAL && o->context > o->positions)
        return fail(BAD_OPTION, "%s is longer than %s; give at most %" PRId64, TYPED(OPTION_context),
                    TYPED(OPTION_positions), o->positions);
    return rule_rope(o);
}

/* The projection is divided among the tensor-parallel ranks by its 2 x hidden-size inputs. */
static Status rule_mtp(const Options *o)
{
    if (o->mtp_layers == 0) return OK;
    if (o->position.value == CHOICE_position_learned_absolute)
        return fail(BAD_OPTION, "%s: the first pipeline stage has the learned positions, and the last one "
                    "embeds the tokens ahead; give %s rope, yarn, alibi or none", TYPED(OPTION_mtp_layers),
                    NAMED(OPTION_position));
    if (o->embed_layernorm)
        return fail(BAD_OPTION, "%s: the first pipeline stage has the norm of %s, and the last one embeds "
                    "the tokens ahead; leave one of them out", TYPED(OPTION_mtp_layers),
                    NAMED(OPTION_embed_layernorm));
    if (o->optimizer.value == CHOICE_optimizer_sophia)
        return fail(BAD_OPTION, "%s: %s draws targets for the next token alone; give another optimizer, or "
                    "leave %s out", TYPED(OPTION_optimizer), o->optimizer.word, TYPED(OPTION_mtp_layers));
    if (o->command != FOR_EVAL && o->mtp_layers >= o->sequence)
        return fail(BAD_OPTION, "%s: %s has no position from which so many tokens are ahead; give fewer",
                    TYPED(OPTION_mtp_layers), TYPED(OPTION_sequence));
    if (2 * o->hidden % o->tensor_parallel)
        return fail(BAD_OPTION, "%s: %s does not divide 2 x %s; give one that does",
                    TYPED(OPTION_mtp_layers), TYPED(OPTION_tensor_parallel), TYPED(OPTION_hidden));
    return OK;
}

/* --- experts -------------------------------------------------------------------------------------------- */

/* Groups have equal numbers of experts; without --moe-router-group-best as many scores rank a group as a
 * token would take of each of its groups. */
static Status rule_expert_groups(const Options *o)
{
    int64_t groups = o->router_groups, best = o->router_group_topk;
    if (groups == 0 || best == 0) return OK;
    if (o->experts % groups || best > groups)
        return fail(BAD_OPTION, "%s and %s: groups divide %s, and at most all of them are taken",
                    TYPED(OPTION_router_groups), TYPED(OPTION_router_group_topk), TYPED(OPTION_experts));
    int64_t each = o->experts / groups, sum = o->router_group_best;
    if (sum > each || (sum && o->router_topk > best * each))
        return fail(BAD_OPTION, "%s: a group has %" PRId64 " experts, and a token takes %" PRId64 " of %"
                    PRId64 " groups; give --moe-router-group-best %" PRId64 " or less, and "
                    "--moe-router-topk %" PRId64 " or less", TYPED(OPTION_router_group_best), each,
                    o->router_topk, best, each, best * each);
    if (!sum && (o->router_topk % best || o->router_topk / best > o->experts / groups))
        return fail(BAD_OPTION, "%s does not divide %s into at most the %" PRId64 " experts of a group",
                    TYPED(OPTION_router_group_topk), TYPED(OPTION_router_topk), o->experts / groups);
    return OK;
}

static Status rule_experts(const Options *o)
{
    static const struct { OptionIndex divisor, whole; } split[] = {
        { OPTION_expert_parallel, OPTION_experts }, { OPTION_expert_tensor_parallel, OPTION_expert_ffn },
        { OPTION_tensor_parallel, OPTION_shared_ffn } };
    uint8_t layers[LAYER_PATTERN_MAX];
    if (o->experts == 0 && o->expert_parallel * o->expert_tensor_parallel > 1)
        return fail(BAD_OPTION, "%s has no effect without --num-experts; give that too, or leave it out",
                    TYPED(o->expert_parallel > 1 ? OPTION_expert_parallel : OPTION_expert_tensor_parallel));
    if (o->experts == 0) return OK;
    TRY(options_expert_layers(layers, o));
    if (!o->disable_bias)
        return fail(BAD_OPTION, "%s: experts have no biases; give --disable-bias-linear",
                    TYPED(OPTION_experts));
    if (o->add_mlp_bias)
        return fail(BAD_OPTION, "%s: experts have no biases; leave out %s", TYPED(OPTION_experts),
                    TYPED(OPTION_add_mlp_bias));
    if (o->router_topk > o->experts)
        return fail(BAD_OPTION, "%s is more than %s; give at most as many", TYPED(OPTION_router_topk),
                    TYPED(OPTION_experts));
    if (o->router_topk == 1 && o->router_score.value == CHOICE_router_score_softmax && !o->router_pre_softmax)
        return fail(BAD_OPTION, "%s: a softmax over one expert is 1, from which the router learns nothing; "
                    "give --moe-router-pre-softmax", TYPED(OPTION_router_topk));
    for (size_t i = 0; i < COUNT(split); i++)
        if (value_of(o, split[i].whole) % value_of(o, split[i].divisor))
            return fail(BAD_OPTION, "%s does not divide %s; give one that does", TYPED(split[i].divisor),
                        TYPED(split[i].whole));
    if (o->fp8_format.value != CHOICE_fp8_format_none)
        return fail(BAD_OPTION, "%s: experts take no 8-bit inputs yet; leave it out, or %s",
                    TYPED(OPTION_fp8_format), NAMED(OPTION_experts));
    return rule_expert_groups(o);
}

static Status rule_spikes(const Options *o)
{
    if (o->spike_factor == 0 || o->spike_factor > 1) return OK;
    return fail(BAD_OPTION, "%s makes a spike of almost each step; give a number above 1, such as 1.5, or 0",
                TYPED(OPTION_spike_factor));
}

static Status rule_wandb(const Options *o)
{
    if (!o->wandb_project || o->wandb_save_dir || o->save) return OK;
    return fail(BAD_OPTION, "%s has no directory for its records; give --wandb-save-dir DIR, or --save DIR, "
                "which then has them in DIR/wandb", TYPED(OPTION_wandb_project));
}

/* What ZeRO shards is shared by the ranks that hold the same weights. */
static Status rule_zero(const Options *o)
{
    if ((o->command & (FOR_EVAL | FOR_GENERATE | FOR_SERVE)) && (o->zero_stage == 1 || o->zero_stage == 2))
        return fail(BAD_OPTION, "%s shards gradients and optimizer states, and only jotun train has them; "
                    "give 3, which shards the weights, or leave it out", TYPED(OPTION_zero_stage));
    if (o->zero_stage == 0 || options_data_parallel(o) * o->context_parallel > 1) return OK;
    log_line("%s shards over one data-parallel rank and so saves no memory", TYPED(OPTION_zero_stage));
    return OK;
}

static Status rule_copies(const Options *o)
{
    if (o->test_mode && o->ranks == 1)
        log_line("%s compares the copies of weights on several ranks, and one rank has none",
                 NAMED(OPTION_test_mode));
    return OK;
}

/* Groups that shard divide the data-parallel ranks. */
static Status rule_hybrid(const Options *o)
{
    char cure[SAID];
    int64_t dp = options_data_parallel(o), data = dp * o->context_parallel;
    if (!o->hybrid_shard || o->zero_stage == 0) return OK;            /* WANTS says what is missing */
    if (data % o->hybrid_shard)
        return fail(BAD_OPTION, "%s does not divide the %" PRId64 " ranks that ZeRO shards over (%" PRId64
                    " data-parallel x %s %" PRId64 "); give %s", TYPED(OPTION_hybrid_shard), data, dp,
                    NAMED(OPTION_context_parallel), o->context_parallel,
                    cure_divisor(cure, o, OPTION_hybrid_shard, data));
    if (o->hybrid_shard == data && data > 1)
        log_line("%s is all data-parallel ranks: nothing is replicated", TYPED(OPTION_hybrid_shard));
    return OK;
}

static bool demand_holds(const Options *o, const OptionDemand *d)
{
    char value[256];
    options_value_text(value, sizeof value, o, d->option);
    return d->kind == DEMAND_NOT ? strcmp(value, d->value) != 0
                                 : strtoll(value, NULL, 10) >= strtoll(d->value, NULL, 10);
}

static Status rule_demands(const Options *o)
{
    char value[256];
    for (int i = 0; i < o->demands; i++) {
        const OptionDemand *d = &o->demand[i];
        if (demand_holds(o, d)) continue;
        if (d->kind == DEMAND_NOT) return fail(BAD_OPTION, "%s%s%s", d->before, TYPED(d->option), d->after);
        options_value_text(value, sizeof value, o, d->option);
        return fail(BAD_OPTION, "%s%s%s%" PRId64, d->before, value, d->after,
                    (int64_t)strtoll(value, NULL, 10) + d->more);
    }
    return OK;
}

static Status rule_grad_reduce(const Options *o)
{
    if (!o->grad_reduce_in_bf16 || options_data_parallel(o) * o->context_parallel > 1) return OK;
    log_line("%s changes nothing on one data-parallel rank, which sends no gradients",
             TYPED(OPTION_grad_reduce_in_bf16));
    return OK;
}

/* The reference back end has one type, double. */
static Status rule_precision(const Options *o)
{
    static const OptionIndex narrow[] = { OPTION_bf16, OPTION_fp16, OPTION_grad_reduce_in_bf16 };
    if (o->bf16 && o->fp16)
        return fail(BAD_OPTION, "%s and %s are two types; give one of them (--bf16=false and --fp16=false "
                    "leave out a checkpoint's)", TYPED(OPTION_bf16), TYPED(OPTION_fp16));
    if (o->fp16 && !(o->loss_scale > 0) && o->initial_loss_scale < o->min_loss_scale)
        return fail(BAD_OPTION, "%s is below %s; give a scale to begin with that is not below the least one",
                    TYPED(OPTION_initial_loss_scale), TYPED(OPTION_min_loss_scale));
    if (o->device.value != CHOICE_device_ref) return OK;
    for (size_t i = 0; i < COUNT(narrow); i++)
        if (*(const OptionFLAG *)option_field_of(o, narrow[i]))
            return fail(BAD_OPTION, "%s: --device ref computes in double alone; give --device cpu, or "
                        "--%s=false", TYPED(narrow[i]), option_rows[narrow[i]].name);
    return OK;
}

/* Layers in BF16 at both ends leave some for 8-bit inputs, and are more than none. */
static Status rule_fp8(const Options *o)
{
    if (!o->first_last_bf16 || o->fp8_format.value == CHOICE_fp8_format_none) return OK;
    if (o->start_bf16 + o->end_bf16 == 0)
        return fail(BAD_OPTION, "%s leaves no layer in BF16 with %s and %s; give 1 or more of one of them, "
                    "or leave it out", TYPED(OPTION_first_last_bf16), TYPED(OPTION_start_bf16),
                    TYPED(OPTION_end_bf16));
    if (o->start_bf16 + o->end_bf16 < o->layers) return OK;
    return fail(BAD_OPTION, "%s and %s leave none of %s for %s; give fewer layers in BF16, or --fp8-format "
                "none", NAMED(OPTION_start_bf16), NAMED(OPTION_end_bf16), TYPED(OPTION_layers),
                TYPED(OPTION_fp8_format));
}

/* A watchdog beats several times within its limit, which takes some time even on a fast machine. */
static Status rule_watchdog(const Options *o)
{
    double shortest = 0.1;
    if (o->watchdog_seconds == 0 || o->watchdog_seconds >= shortest) return OK;
    return fail(BAD_OPTION, "%s would stop a healthy run; give %g or more, or 0 for no watchdog",
                TYPED(OPTION_watchdog_seconds), shortest);
}

/* --- what is shown instead of a run --------------------------------------------------------------------- */

static Status rule_one_view(const Options *o)
{
    static const OptionIndex view[] = { OPTION_dry_run, OPTION_draw_schedule, OPTION_schedule_svg };
    int first = -1;
    for (size_t i = 0; i < COUNT(view); i++) {
        if (!option_asked(o, view[i])) continue;
        if (first >= 0)
            return fail(BAD_OPTION, "%s and %s: each shows one thing and stops; leave one out", NAMED(first),
                        NAMED(view[i]));
        first = view[i];
    }
    return OK;
}

/* --- data ----------------------------------------------------------------------------------------------- */

static bool given(const Options *o, OptionIndex option) { return o->source[option].kind != SOURCE_NOTHING; }

/* In a blend, "W P W P ...", each weight is above 0. Whether all of them are numbers is checked where the
 * list is read. */
static Status rule_blend(const Options *o)
{
    static const OptionIndex blend[] = { OPTION_data_path, OPTION_train_data_path, OPTION_valid_data_path,
                                         OPTION_test_data_path };
    double weight;
    for (size_t b = 0; b < COUNT(blend); b++) {
        const TextList *list = option_field_of(o, blend[b]);
        for (int i = 0; list->count % 2 == 0 && i < list->count; i += 2)
            if (value_number(list->text[i], &weight) && !(weight > 0 && isfinite(weight)))
                return fail(BAD_OPTION, "%s: weight %s of %s is not above 0; give another, or leave that "
                            "data set out", NAMED(blend[b]), list->text[i], list->text[i + 1]);
    }
    return OK;
}

/* The ways to name the data, of which a run takes one. */
static Status rule_one_source(const Options *o)
{
    static const OptionIndex whole[] = { OPTION_data_file_list, OPTION_train_data_path, OPTION_train_parts,
                                         OPTION_train_parts_file, OPTION_data_path, OPTION_mock_data };
    static const OptionIndex rest[] = { OPTION_valid_parts, OPTION_valid_parts_file, OPTION_test_parts,
                                        OPTION_test_parts_file };
    bool parts = given(o, OPTION_train_parts) || given(o, OPTION_train_parts_file);
    for (size_t i = 0; i < COUNT(whole); i++)
        for (size_t j = i + 1; j < COUNT(whole); j++)
            if (given(o, whole[i]) && given(o, whole[j]) && (whole[j] != OPTION_mock_data || o->mock_data))
                return fail(BAD_OPTION, "%s and %s both name the data; leave one out", TYPED(whole[i]),
                            TYPED(whole[j]));
    for (size_t i = 0; i < COUNT(rest); i++) {
        if (!given(o, rest[i])) continue;
        if (!parts)
            return fail(BAD_OPTION, "%s has no effect without --train-weighted-split-paths; give it, or"
                        " leave this out", NAMED(rest[i]));
        if (i % 2 && given(o, rest[i - 1]))
            return fail(BAD_OPTION, "%s and %s both name the data; leave one out", NAMED(rest[i - 1]),
                        NAMED(rest[i]));
    }
    if ((parts || given(o, OPTION_train_data_path)) && options_said(o, OPTION_split))
        return fail(BAD_OPTION, "%s does not apply to %s; leave one out", TYPED(OPTION_split), parts
                    ? "--train-weighted-split-paths, which names parts itself"
                    : "--train-data-path, all of which is trained on");
    if (options_said(o, OPTION_split) && !value_weights(o->split))
        return fail(BAD_OPTION, "%s: give weights of train, valid and test, for example 969,30,1",
                    TYPED(OPTION_split));
    if (o->command == FOR_EVAL && o->data_path.count > 1)
        return fail(BAD_OPTION, "jotun eval perplexity reads one --data-path PREFIX, and there are %d words",
                    o->data_path.count);
    return OK;
}

/* Validation sets of their own have no weights, and a name each; a blend has no end that a full evaluation
 * could reach. */
static Status rule_valid_sets(const Options *o)
{
    enum { SETS = 32 };                                             /* VALID_SETS_MAX of data/split.h */
    static const OptionIndex blend[] = { OPTION_data_path, OPTION_valid_data_path };
    static const OptionIndex endless[] = { OPTION_data_file_list, OPTION_valid_parts,
                                          OPTION_valid_parts_file };
    const TextList *sets = &o->valid_data_path, *names = &o->valid_names;
    double weight;
    for (int i = 0; o->several_valid && i < sets->count; i++)
        if (value_number(sets->text[i], &weight))
            return fail(BAD_OPTION, "--multiple-validation-sets: %s among the prefixes of %s would be a "
                        "weight, which sets of their own do not have; leave it out", sets->text[i],
                        NAMED(OPTION_valid_data_path));
    if (o->several_valid && sets->count > SETS)
        return fail(BAD_OPTION, "--multiple-validation-sets: %d sets are more than %d; give fewer",
                    sets->count,
                    SETS);
    if (names->count && names->count != sets->count)
        return fail(BAD_OPTION, "--validation-set-names has %d names for %d sets of %s; give one for each",
                    names->count, sets->count, NAMED(OPTION_valid_data_path));
    for (int i = 0; i < names->count; i++)
        if (!*names->text[i] || strlen(names->text[i]) > 32 || strpbrk(names->text[i], "\"\\\n\t"))
            return fail(BAD_OPTION, "--validation-set-names: a name has 1 to 32 characters and no quotes, "
                        "backslashes or control characters");
    for (size_t b = 0; o->full_validation && b < 2; b++) {
        const TextList *list = option_field_of(o, blend[b]);
        if (list->count && value_number(list->text[0], &weight))
            return fail(BAD_OPTION, "--full-validation: the weights of %s make a blend without end; leave "
                        "the weights out, or give --multiple-validation-sets", NAMED(blend[b]));
    }
    for (size_t b = 0; o->full_validation && b < COUNT(endless); b++)
        if (given(o, endless[b]))
            return fail(BAD_OPTION, "--full-validation: the weights of %s make a blend without end; leave it"
                        " out", NAMED(endless[b]));
    return OK;
}

/* A window of an evaluation predicts at least one token. */
static Status rule_overlap(const Options *o)
{
    if (o->command != FOR_EVAL || o->overlap < o->context) return OK;
    return fail(BAD_OPTION, "%s leaves no token of a window of %" PRId64 " (%s) to be predicted; give %"
                PRId64 " or less", TYPED(OPTION_overlap), o->context, TYPED(OPTION_context), o->context - 1);
}

/* --- what a command needs ------------------------------------------------------------------------------- */

Status options_needed(const Options *o)
{
    bool only_shows = o->dry_run || o->clean_dry_run || o->draw_schedule || o->schedule_svg;
    bool other_data = given(o, OPTION_data_file_list) || given(o, OPTION_train_data_path) || o->mock_data ||
                      given(o, OPTION_train_parts) || given(o, OPTION_train_parts_file);
    bool other_length = given(o, OPTION_train_samples) || given(o, OPTION_train_tokens);
    bool no_text = o->command == FOR_EVAL && !given(o, OPTION_text) && !given(o, OPTION_data_path);
    char missing[2 * SAID] = "";
    for (const OptionNeeded *n = options_needed_rows; n->says; n++) {
        if (o->command != n->command || given(o, n->option) || only_shows) continue;
        if (n->option == OPTION_data_path && other_data) continue;
        if (n->option == OPTION_train_iters && other_length) continue;
        if (n->option == OPTION_prompt && (given(o, OPTION_prompt_file) || given(o, OPTION_prompt_jsonl)))
            continue;
        message_item(missing, sizeof missing, " and ", "--%s %s", option_rows[n->option].name, n->says);
    }
    if (no_text) message_item(missing, sizeof missing, " and ", "either --text FILE or --data-path PREFIX");
    if (*missing) return fail(BAD_USAGE, "jotun %s needs %s", command_name(o->command), missing);
    if (o->command == FOR_EVAL && given(o, OPTION_text) && given(o, OPTION_data_path))
        return fail(BAD_USAGE, "jotun eval perplexity takes either --text FILE or --data-path PREFIX, not"
                    " both");
    bool reads = o->command == FOR_EVAL ? given(o, OPTION_text)
                                        : given(o, OPTION_prompt_file) || given(o, OPTION_prompt_jsonl);
    if (o->command & (FOR_EVAL | FOR_GENERATE) && o->input_encoding && !reads)
        return fail(BAD_USAGE, "--input-encoding %s is of a file that is read as text: %s", o->input_encoding,
                    o->command == FOR_EVAL ? "give --text FILE, or leave it out"
                                           : "give --prompt-file or --prompt-jsonl, or leave it out");
    return o->command & (FOR_GENERATE | FOR_SERVE) ? rule_generate(o) : OK;
}

static Status rule_ranges(const Options *o)
{
    for (int i = 0; i < OPTIONS; i++) TRY(options_range(o, i));
    return OK;
}

/* Ranges come first: later rules divide by these values. The second list is for commands that have a model
 * and ranks. */
typedef Status Rule(const Options *o);
static Rule *const rules[] = { rule_ranges, options_needed, rule_blend };
static Rule *const model_rules[] = {
    rule_activation, rule_model, rule_mtp, rule_dividing, rule_ranks, rule_sequence,
    rule_virtual_stages, rule_groups,
    rule_batch, rule_lengths, rule_duration, rule_rate, rule_watchdog, rule_one_view, rule_zero, rule_copies,
    rule_hybrid,
    rule_experts, rule_spikes, rule_wandb, rule_demands, rule_grad_reduce, rule_precision, rule_fp8,
    rule_recompute, rule_context, rule_window, rule_overlap, rule_optimizer
};
static Rule *const last_rules[] = { options_wants, rule_one_source, rule_valid_sets };

/* What holds on any number of ranks, and whatever a command line of train adds. */
static Rule *const file_rules[] = {
    rule_ranges, rule_activation, rule_model, rule_mtp, rule_dividing, rule_duration,
    rule_experts, rule_spikes, rule_demands, rule_precision, rule_window, options_shape_wants,
    rule_one_source
};

static Status apply_rules(const Options *o, Rule *const *rule, size_t count)
{
    for (size_t i = 0; i < count; i++) TRY(rule[i](o));
    return OK;
}

Status options_validate(const Options *o)
{
    bool model = o->command & (FOR_TRAIN | FOR_EVAL | FOR_GENERATE | FOR_SERVE);
    TRY(apply_rules(o, rules, COUNT(rules)));
    if (model) TRY(apply_rules(o, model_rules, COUNT(model_rules)));
    return apply_rules(o, last_rules, COUNT(last_rules));
}

Status options_validate_file(const Options *o)
{
    if (options_said(o, OPTION_global_batch)) TRY(rule_rate(o));        /* else it follows from the ranks */
    return apply_rules(o, file_rules, COUNT(file_rules));
}
