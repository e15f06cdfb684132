/* The training schedule as options say it, in steps, samples, tokens or fractions. */
#include "conf/schedule.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "conf/value.h"

/* --- batch size ----------------------------------------------------------------------------------------- */

/* An entry that begins where the one before it does replaces it; one of the same size adds nothing. */
static bool step_add(BatchStep *step, int *steps, BatchStep next)
{
    if (*steps > 0 && step[*steps - 1].from == next.from) --*steps;
    if (*steps > 0 && step[*steps - 1].size == next.size) return true;
    if (*steps == BATCH_STEPS_MAX) return false;
    step[(*steps)++] = next;
    return true;
}

/* "16": a whole number from `low` on, and nothing behind it; -1: none */
static int64_t whole_number(const char *text, int64_t low)
{
    char *end;
    int64_t value = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : -1;
    return value >= low && value <= (int64_t)1 << 53 && *end == 0 ? value : -1;
}

/* The least number c of samples with (integer)(c / each) >= k, in double as Megatron-LM computes it. */
static int64_t ramp_from(int64_t k, double each)
{
    int64_t c = (int64_t)ceil((double)k * each);
    while (c > 0 && (int64_t)((double)(c - 1) / each) >= k) c--;
    while ((int64_t)((double)c / each) < k) c++;
    return c;
}

/* START INCR SAMPLES, Megatron-LM's rule up to core 0.17: after c samples a step has START + INCR (integer)(c
 * / S) samples, where S = SAMPLES / ((global - START) / INCR); above SAMPLES it has all. */
static Status ramp_read(BatchStep *step, int *steps, const Options *o)
{
    const TextList *words = &o->rampup_batch;
    int64_t value[3] = { -1, -1, -1 }, global = o->global_batch;
    for (int i = 0; i < 3 && i < words->count; i++) value[i] = whole_number(words->text[i], 1);
    int64_t start = value[0], more = value[1], samples = value[2];
    if (words->count != 3 || start < 0 || more < 0 || samples < 0)
        return fail(BAD_OPTION, "--rampup-batch-size takes three whole numbers from 1 on: the samples of "
                    "the first step, how many are added at a time, and the samples after which a step has "
                    "--global-batch-size; say 16 16 100000");
    if (start > global || (global - start) % more != 0)
        return fail(BAD_OPTION, "--rampup-batch-size %" PRId64 " %" PRId64 " %" PRId64 ": %s %" PRId64 " - %"
                    PRId64 " = %" PRId64 " is no multiple of %" PRId64 "; begin with %" PRId64 ", or add a "
                    "number that divides the difference", start, more, samples, NAMED(OPTION_global_batch),
                    global, start, global - start, more, global % more ? global % more : more);
    int64_t rises = (global - start) / more;
    if (rises >= BATCH_STEPS_MAX)
        return fail(BAD_OPTION, "--rampup-batch-size rises %" PRId64 " times, and at most %d are possible; "
                    "add more than %" PRId64 " samples at a time", rises, BATCH_STEPS_MAX - 1, more);
    step_add(step, steps, (BatchStep){ 0, start });
    double each = (double)samples / (double)rises;
    for (int64_t k = 1; k <= rises; k++) {
        int64_t from = ramp_from(k, each);
        step_add(step, steps, (BatchStep){ from > samples ? samples + 1 : from, start + k * more });
    }
    return OK;
}

/* One word of --step-batch-size-schedule, TOKENS:SIZE, where TOKENS may end in K, M, B or T. */
static bool threshold_read(double *tokens, int64_t *size, const char *text)
{
    static const struct { char letter; double factor; } unit[] = {
        { 'K', 1e3 }, { 'M', 1e6 }, { 'B', 1e9 }, { 'T', 1e12 } };
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.') return false;
    *tokens = strtod(text, &end);
    for (size_t i = 0; i < COUNT(unit); i++)
        if (toupper((unsigned char)*end) == unit[i].letter) { *tokens *= unit[i].factor, end++; break; }
    if (*end != ':' || !(*tokens < 9e15)) return false;
    *tokens = floor(*tokens);
    return (*size = whole_number(end + 1, 1)) > 0;
}

/* Entries in tokens, separated by blanks or commas; samples are tokens / --seq-length, rounded down. */
static Status steps_read(BatchStep *step, int *steps, const Options *o)
{
    char word[64];
    double before = -1, tokens;
    int64_t size;
    for (const char *at = o->step_batch; *at; at += strcspn(at, " ,")) {
        at += strspn(at, " ,");
        size_t bytes = strcspn(at, " ,");
        if (bytes == 0) break;
        snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word - 1), at);
        if (!threshold_read(&tokens, &size, word))
            return fail(BAD_OPTION, "--step-batch-size-schedule: %s is not TOKENS:SIZE; say \"0:16 "
                        "2.4B:320\", with K, M, B or T for 1e3 to 1e12 tokens", word);
        if (*steps == 0 && before < 0 && tokens != 0)
            return fail(BAD_OPTION, "--step-batch-size-schedule begins with %s; begin with 0:%" PRId64, word,
                        size);
        if (tokens <= before)
            return fail(BAD_OPTION, "--step-batch-size-schedule: %s does not come after the entry before "
                        "it; give thresholds that rise", word);
        before = tokens;
        if (!step_add(step, steps, (BatchStep){ (int64_t)tokens / o->sequence, size }))
            return fail(BAD_OPTION, "--step-batch-size-schedule has more than %d entries; give fewer",
                        BATCH_STEPS_MAX);
    }
    return *steps > 0 ? OK : fail(BAD_OPTION, "--step-batch-size-schedule is empty; say \"0:16 2.4B:320\"");
}

Status options_last_batch(int64_t *size, const Options *o)
{
    BatchStep step[BATCH_STEPS_MAX];
    int steps = 0;
    *size = 0;
    if (!o->step_batch) return OK;
    TRY(steps_read(step, &steps, o));
    *size = step[steps - 1].size;
    return OK;
}

Status options_batch(BatchStep step[BATCH_STEPS_MAX], int *steps, const Options *o)
{
    int64_t unit = o->micro_batch * options_data_parallel(o);
    int kept = 0;
    *steps = 0;
    if (o->step_batch)               TRY(steps_read(step, steps, o));
    else if (o->rampup_batch.count)  TRY(ramp_read(step, steps, o));
    else step_add(step, steps, (BatchStep){ 0, o->global_batch });
    for (int i = 0; o->decrease_batch && i < *steps; i++)
        step_add(step, &kept, (BatchStep){ step[i].from, step[i].size / unit * unit });
    if (o->decrease_batch) *steps = kept;
    return OK;
}

/* The option that says the batch size. */
static OptionIndex batch_option(const Options *o)
{
    if (o->step_batch) return OPTION_step_batch;
    return o->rampup_batch.count ? OPTION_rampup_batch : OPTION_global_batch;
}

/* "", or where in a run steps of this size begin */
static const char *from_text(char out[SAID], const Options *o, BatchStep step)
{
    out[0] = 0;
    if (batch_option(o) != OPTION_global_batch)
        snprintf(out, SAID, ": steps of %" PRId64 " samples, from sample %" PRId64 " on,", step.size,
                 step.from);
    return out;
}

/* Interleaved micro-batches come in rounds of as many as there are stages, or in groups of at least as many
 * of which the last one may be smaller, but not smaller than that. */
static Status groups_fit(const Options *o, BatchStep step, int64_t of_one)
{
    char cure[SAID], from[SAID];
    int64_t pp = o->pipeline_parallel, group = o->micro_group, micros = step.size / of_one;
    bool interleaved = o->layers_per_chunk || o->virtual_stages;
    if (!interleaved || o->pipeline_layout || pp == 1) return OK;
    if (o->pipeline_schedule.value == CHOICE_pipeline_schedule_zb_v) return OK;
    if (group && (group < pp || group > micros))
        return fail(BAD_OPTION, "%s: a group has at least the %" PRId64 " micro-batches that fill the "
                    "pipeline, and at most the %" PRId64 " of a step; give a number between",
                    TYPED(OPTION_micro_group), pp, micros);
    if (group ? micros % group == 0 || micros % group >= pp : micros % pp == 0) return OK;
    int64_t unit = of_one * (group ? group : pp);
    const char *said = TYPED(batch_option(o));
    from_text(from, o, step);
    message_multiples(cure, SAID, step.size, unit);
    if (group)
        return fail(BAD_OPTION, "%s%s is not a multiple of %" PRId64 " (groups of %" PRId64 " micro-batches, "
                    "of which the last one has none or at least %" PRId64 "); give %s", said, from, unit,
                    group, pp, cure);
    return fail(BAD_OPTION, "%s%s is not a multiple of %" PRId64 " (an interleaved pipeline of %" PRId64
                " stages needs as many micro-batches or a multiple); give %s", said, from, unit, pp, cure);
}

/* Gradient accumulation: each data-parallel rank computes a whole number of micro-batches in a step. */
static Status step_fits(const Options *o, BatchStep step)
{
    char cure[SAID], from[SAID], made[SAID];
    int64_t dp = options_data_parallel(o), unit = o->micro_batch * dp;
    snprintf(made, sizeof made, "%s %" PRId64 " x %" PRId64 " data-parallel rank%s",
             NAMED(OPTION_micro_batch), o->micro_batch, dp, dp == 1 ? "" : "s");
    if (o->ranks > dp)
        snprintf(made + strlen(made), sizeof made - strlen(made),
                 ", %" PRId64 " ranks / (tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64 ")", o->ranks,
                 o->tensor_parallel, o->pipeline_parallel, o->context_parallel);
    from_text(from, o, step);
    if (step.size == 0)
        return fail(BAD_OPTION, "%s%s is less than the %" PRId64 " samples (%s) that a step has at least; "
                    "give %" PRId64 " or more", TYPED(batch_option(o)), from, unit, made, unit);
    if (step.size % unit != 0)
        return fail(BAD_OPTION, "%s%s is not a multiple of %" PRId64 " (%s); give %s, or "
                    "--decrease-batch-size-if-needed", TYPED(batch_option(o)), from, unit, made,
                    message_multiples(cure, SAID, step.size, unit));
    return groups_fit(o, step, unit);
}

/* Tokens of a step are counted in 32 bits. */
static Status tokens_fit(const Options *o, int64_t size)
{
    int64_t unit = o->micro_batch * options_data_parallel(o);
    int64_t most = INT32_MAX / o->sequence / unit * unit;
    if (size <= INT32_MAX / o->sequence) return OK;
    if (most)
        return fail(BAD_OPTION, "%s x %s are more than %d tokens a step; give %s %" PRId64 " or less",
                    TYPED(batch_option(o)), TYPED(OPTION_sequence), INT32_MAX, NAMED(batch_option(o)), most);
    return fail(BAD_OPTION, "%s x %s are more than %d tokens a step; give %s %" PRId64 " or less",
                TYPED(batch_option(o)), TYPED(OPTION_sequence), INT32_MAX, NAMED(OPTION_sequence),
                (int64_t)INT32_MAX / size);
}

/* The same of an evaluation, whose batch without a size of its own is that of the last steps. */
static Status evaluation_fits(const Options *o, int64_t last)
{
    char cure[SAID];
    int64_t dp = options_data_parallel(o), size = o->eval_global_batch ? o->eval_global_batch : last;
    int64_t micro = o->eval_micro_batch ? o->eval_micro_batch : o->micro_batch, unit = micro * dp;
    OptionIndex sized = o->eval_global_batch ? OPTION_eval_global_batch : batch_option(o);
    OptionIndex each  = o->eval_micro_batch ? OPTION_eval_micro_batch : OPTION_micro_batch;
    if (!o->eval_global_batch && !o->eval_micro_batch) return OK;
    if (size % unit != 0)
        return fail(BAD_OPTION, "an evaluation's batch of %" PRId64 " samples (%s) is not a multiple of %"
                    PRId64 " (%s %" PRId64 " x %" PRId64 " data-parallel rank%s); give %s %s", size,
                    NAMED(sized), unit, NAMED(each), micro, dp, dp == 1 ? "" : "s",
                    NAMED(OPTION_eval_global_batch), message_multiples(cure, SAID, size, unit));
    if (size <= INT32_MAX / o->sequence) return OK;
    return fail(BAD_OPTION, "%s x %s are more than %d tokens of an evaluation's batch; give %s %" PRId64
                " or less", TYPED(sized), TYPED(OPTION_sequence), INT32_MAX,
                NAMED(OPTION_eval_global_batch), (int64_t)INT32_MAX / o->sequence);
}

/* Global batch = micro-batch x gradient accumulation steps x data-parallel ranks. */
static Status rule_accumulation(const Options *o)
{
    int64_t dp = options_data_parallel(o), steps = o->accumulation, unit = steps * dp, micro = o->micro_batch;
    char    cure[SAID];
    if (!steps) return OK;
    if (batch_option(o) != OPTION_global_batch)
        return fail(BAD_OPTION, "%s and %s: batch sizes that change have no one number of micro-batches; "
                    "leave the first out", TYPED(OPTION_accumulation), NAMED(batch_option(o)));
    if (o->global_batch == micro * unit) return OK;
    if (o->source[OPTION_micro_batch].kind <= SOURCE_DEFAULT)
        return fail(BAD_OPTION, "%s is not a multiple of %" PRId64 " (%s %" PRId64 " x %" PRId64
                    " data-parallel rank%s); give %s", TYPED(OPTION_global_batch), unit,
                    NAMED(OPTION_accumulation), steps, dp, dp == 1 ? "" : "s",
                    message_multiples(cure, SAID, o->global_batch, unit));
    return fail(BAD_OPTION, "%s is not %" PRId64 " (%s %" PRId64 " x %s %" PRId64 " x %" PRId64
                " data-parallel rank%s); give %" PRId64 ", other ranks, or leave one of the three out",
                TYPED(OPTION_global_batch), micro * unit, NAMED(OPTION_micro_batch), micro,
                NAMED(OPTION_accumulation), steps, dp, dp == 1 ? "" : "s", micro * unit);
}

Status rule_batch(const Options *o)
{
    BatchStep step[BATCH_STEPS_MAX];
    int steps;
    int64_t last;
    if (o->rampup_batch.count && o->step_batch)
        return fail(BAD_OPTION, "%s and %s: a run has one schedule of batch sizes; leave one out",
                    NAMED(OPTION_rampup_batch), NAMED(OPTION_step_batch));
    if (o->step_batch && o->decrease_batch)
        return fail(BAD_OPTION, "%s and %s: the sizes of the schedule are used as they are; leave the "
                    "second out",
                    NAMED(OPTION_step_batch), NAMED(OPTION_decrease_batch));
    TRY(rule_accumulation(o));
    TRY(options_last_batch(&last, o));
    if (last && o->global_batch != last)
        return fail(BAD_OPTION, "%s is not the last size of %s, which counts steps as samples; give %" PRId64
                    ", or leave it out", TYPED(OPTION_global_batch), TYPED(OPTION_step_batch), last);
    TRY(options_batch(step, &steps, o));
    for (int i = 0; i < steps; i++) TRY(step_fits(o, step[i]));
    TRY(evaluation_fits(o, step[steps - 1].size));
    return tokens_fit(o, batch_schedule_largest((BatchSchedule){ step, steps }));
}

/* --- sequence length ------------------------------------------------------------------------------------ */

Status options_lengths(LengthSchedule *lengths, const Options *o)
{
    const TextList *words = &o->length_warmup;
    int64_t value[3] = { -1, -1, -1 };
    *lengths = (LengthSchedule){ .most = o->sequence };
    if (!words->count) return OK;
    for (int i = 0; i < 3 && i < words->count; i++) value[i] = whole_number(words->text[i], 1);
    if (words->count != 3 || value[0] < 0 || value[1] < 0 || value[2] < 0)
        return fail(BAD_OPTION, "--seq-length-warmup takes three whole numbers from 1 on: the tokens that the"
                    " first steps count, the step from which all count, and what lengths are multiples of; "
                    "for example 64 1000 8");
    if (value[0] > o->sequence || value[0] < value[2])
        return fail(BAD_OPTION, "--seq-length-warmup begins with %" PRId64 " tokens; give a number from its "
                    "multiple, %" PRId64 ", to %s", value[0], value[2], TYPED(OPTION_sequence));
    *lengths = (LengthSchedule){ .least = value[0], .most = o->sequence, .steps = value[1],
                                 .multiple = value[2] };
    return OK;
}

int64_t options_token_samples(const Options *o)
{
    LengthSchedule lengths;
    bool rises = options_lengths(&lengths, o) == OK && lengths.steps;
    if (!rises) return o->train_tokens / o->sequence;
    if (!o->global_batch) return -1;
    return length_steps(&lengths, o->train_tokens / o->global_batch) * o->global_batch;
}

/* Tokens that do not count would be routed to experts, and predicted by other depths, all the same. */
Status rule_lengths(const Options *o)
{
    LengthSchedule lengths;
    OptionIndex unit = OPTION_lr_unit, own = OPTION_length_warmup;
    bool tokens = o->lr_unit.value == CHOICE_lr_unit_tokens ||
                  o->lr_unit.value == CHOICE_lr_unit_decay_tokens;
    bool decays = o->lr_decay_style.value != CHOICE_lr_decay_style_constant;
    TRY(options_lengths(&lengths, o));
    if (tokens && !lengths.steps)
        return fail(BAD_OPTION, "%s needs --seq-length-warmup, without which all samples have as many "
                    "tokens; leave it out", TYPED(unit));
    if (tokens && o->lr_rule.value != CHOICE_lr_rule_immediate)
        return fail(BAD_OPTION, "%s counts steps; leave %s out", TYPED(OPTION_lr_rule), NAMED(unit));
    if (tokens && decays && !options_said(o, OPTION_lr_decay_samples) &&
        !options_said(o, OPTION_lr_decay_iters))
        return fail(BAD_OPTION, "%s needs --lr-decay-samples N, tokens / --seq-length", TYPED(unit));
    if (!lengths.steps) return OK;
    OptionIndex batch = o->decrease_batch ? OPTION_decrease_batch : batch_option(o);
    if (batch != OPTION_global_batch)
        return fail(BAD_OPTION, "%s counts steps of one size; leave it or %s out", NAMED(own), NAMED(batch));
    if (o->experts || o->mtp_layers)
        return fail(BAD_OPTION, "%s: tokens that do not count would take part in %s; leave one of them out",
                    NAMED(own), TYPED(o->experts ? OPTION_experts : OPTION_mtp_layers));
    if (o->fp8_format.value != CHOICE_fp8_format_none)
        return fail(BAD_OPTION, "%s: tokens that do not count would take part in the scales of %s; leave one "
                    "of them out", NAMED(own), TYPED(OPTION_fp8_format));
    return OK;
}

Status options_left_out(int64_t step[LEFT_OUT_MAX], int *steps, const Options *o)
{
    *steps = 0;
    for (int i = 0; i < o->left_out.count; i++) {
        int64_t value = whole_number(o->left_out.text[i], 1);
        if (value < 0)
            return fail(BAD_OPTION, "--iterations-to-skip %s is no step, which are counted from 1; give "
                        "whole numbers", o->left_out.text[i]);
        if (*steps == LEFT_OUT_MAX)
            return fail(BAD_OPTION, "--iterations-to-skip has %d steps, and at most %d are possible",
                        o->left_out.count, LEFT_OUT_MAX);
        step[(*steps)++] = value;
    }
    return OK;
}

/* --- duration ------------------------------------------------------------------------------------------- */

/* Steps first, so that the last one that says something counts. */
const ScheduleLength schedule_lengths[SCHEDULE_LENGTHS] = {
    [LENGTH_WARMUP] = { 3, { OPTION_lr_warmup_iters, OPTION_lr_warmup_samples, OPTION_lr_warmup_fraction } },
    [LENGTH_DECAY]  = { 2, { OPTION_lr_decay_iters, OPTION_lr_decay_samples } },
    [LENGTH_WSD]    = { 2, { OPTION_lr_wsd_decay_iters, OPTION_lr_wsd_decay_samples } },
};

OptionIndex options_length_said(const Options *o, int length)
{
    const ScheduleLength *l = &schedule_lengths[length];
    for (int i = l->ways - 1; i > 0; i--) {
        bool counted = option_rows[l->way[i]].kind == KIND_INT;          /* 0 samples say nothing */
        if (counted ? *(const OptionINT *)option_field_of(o, l->way[i]) > 0 : options_said(o, l->way[i]))
            return l->way[i];
    }
    return l->way[0];
}

/* A checkpoint has all values of its run, those which followed from others as well. */
static bool given(const Options *o, OptionIndex option)
{
    SourceKind kind = o->source[option].kind;
    return kind == SOURCE_PRESET || kind > SOURCE_CHECKPOINT;
}

/* Values of one quantity, of which one may be given. */
static Status one_of(const Options *o, const OptionIndex *option, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (given(o, option[i]) && given(o, option[j]))
                return fail(BAD_OPTION, "%s and %s say the same in two ways; leave one out", TYPED(option[i]),
                            TYPED(option[j]));
    return OK;
}

Status rule_duration(const Options *o)
{
    static const OptionIndex whole[] = { OPTION_train_iters, OPTION_train_samples, OPTION_train_tokens };
    TRY(one_of(o, whole, 3));
    for (int i = 0; i < SCHEDULE_LENGTHS; i++)
        TRY(one_of(o, schedule_lengths[i].way, schedule_lengths[i].ways));
    int64_t step[LEFT_OUT_MAX];
    int steps;
    return options_left_out(step, &steps, o);
}

/* --- rates ---------------------------------------------------------------------------------------------- */

static Status rule_wsd(const Options *o, ScheduleSamples s)
{
    OptionIndex decay = options_length_said(o, LENGTH_WSD);
    if (o->lr_decay_style.value != CHOICE_lr_decay_style_wsd) return OK;
    if (!s.wsd)
        return fail(BAD_OPTION, "%s needs --lr-wsd-decay-iters N or --lr-wsd-decay-samples N, the length of "
                    "its decay at the end", TYPED(OPTION_lr_decay_style));
    if (s.warmup + (double)s.wsd <= (double)s.decay || !s.decay) return OK;
    return fail(BAD_OPTION, "%s: %.0f samples of warm-up and %" PRId64 " of decay are more than the %" PRId64
                " samples until the decay ends; give fewer", TYPED(decay), s.warmup, s.wsd, s.decay);
}

/* The learning rate rises, decays and ends in this order, and an evaluation evaluates something. */
Status rule_rate(const Options *o)
{
    ScheduleSamples s = options_schedule_samples(o);
    OptionIndex warmup = options_length_said(o, LENGTH_WARMUP), decay = options_length_said(o, LENGTH_DECAY);
    bool decays = o->lr_decay_style.value != CHOICE_lr_decay_style_constant;
    if (o->min_lr > o->lr)
        return fail(BAD_OPTION, "%s is above %s; give %g or less", TYPED(OPTION_min_lr), TYPED(OPTION_lr),
                    o->lr);
    double decoupled_low = options_said(o, OPTION_decoupled_min_lr) ? o->decoupled_min_lr : o->min_lr;
    if (options_said(o, OPTION_decoupled_lr) && decoupled_low > o->decoupled_lr)
        return fail(BAD_OPTION, "%s is below the end of its decay, %g; give --decoupled-min-lr %g or less",
                    TYPED(OPTION_decoupled_lr), decoupled_low, o->decoupled_lr);
    bool averages = o->optimizer.value == CHOICE_optimizer_adamw_free ||
                    o->optimizer.value == CHOICE_optimizer_sgd_free;
    if (averages && options_said(o, OPTION_decoupled_lr))
        return fail(BAD_OPTION, "%s: the averages of %s are made with one learning rate; leave it out, or "
                    "give --optimizer adam", TYPED(OPTION_decoupled_lr), TYPED(OPTION_optimizer));
    if (o->lr_warmup_init > o->lr)
        return fail(BAD_OPTION, "%s is above %s; give %g or less", TYPED(OPTION_lr_warmup_init),
                    TYPED(OPTION_lr),
                    o->lr);
    if (decays && s.decay && s.warmup > (double)s.decay && warmup == OPTION_lr_warmup_iters &&
        decay == OPTION_lr_decay_iters)
        return fail(BAD_OPTION, "%s is more than %s; give %" PRId64 " or less", TYPED(warmup), TYPED(decay),
                    o->lr_decay_iters);
    if (decays && s.decay && s.warmup > (double)s.decay)
        return fail(BAD_OPTION, "%s is a warm-up of %.0f samples, more than the %" PRId64 " of %s; give "
                    "fewer",
                    TYPED(warmup), s.warmup, s.decay, TYPED(decay));
    TRY(rule_wsd(o, s));
    bool changes = o->weight_decay_style.value != CHOICE_weight_decay_style_constant;
    if (changes && (!options_said(o, OPTION_start_weight_decay) || !options_said(o, OPTION_end_weight_decay)))
        return fail(BAD_OPTION, "%s needs --start-weight-decay X and --end-weight-decay X",
                    TYPED(OPTION_weight_decay_style));
    if (o->eval_interval && !o->eval_iters)
        return fail(BAD_OPTION, "%s evaluates nothing with %s; give 1 or more", TYPED(OPTION_eval_interval),
                    TYPED(OPTION_eval_iters));
    return OK;
}

/* Steps count as samples at --global-batch-size, whatever the batch sizes before it. */
ScheduleSamples options_schedule_samples(const Options *o)
{
    int64_t step = o->global_batch;
    ScheduleSamples s = { .whole = o->train_samples ? o->train_samples : o->train_iters * step };
    s.weight_decay = o->weight_decay_samples ? o->weight_decay_samples : s.whole;
    s.decay  = o->lr_decay_samples ? o->lr_decay_samples : o->lr_decay_iters * step;
    if (!s.decay) s.decay = s.whole;
    s.warmup = options_said(o, OPTION_lr_warmup_fraction) ? o->lr_warmup_fraction * (double)s.decay
             : (double)(o->lr_warmup_samples ? o->lr_warmup_samples : o->lr_warmup_iters * step);
    s.wsd    = o->lr_wsd_decay_samples ? o->lr_wsd_decay_samples : o->lr_wsd_decay_iters * step;
    return s;
}

double options_length(const Options *o, int length)
{
    ScheduleSamples s = options_schedule_samples(o);
    switch (length) {
    case LENGTH_WARMUP: return s.warmup;
    case LENGTH_DECAY:  return (double)s.decay;
    default:            return (double)s.wsd;
    }
}
