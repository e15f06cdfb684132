/* The rates of a run that resumes, beside those that its checkpoint's schedule gives for the same steps.
 *
 * Options that are the same may mean another schedule: --lr-decay-iters 10 are 40 samples where a step has 4,
 * and 80 where it has 8, and the learning rate goes by samples. So the rates themselves are compared, of the
 * next step and of every phase behind it. Megatron-LM refuses such a run, since it keeps lengths in samples;
 * so is it here, unless --override-opt-param-scheduler asks for the new schedule. A run that only becomes
 * longer than the checkpoint's, and whose schedule follows from its length, continues with a line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/message.h"
#include "cli/setup/setup.h"
#include "conf/schedule.h"
#include "conf/value.h"
#include "optim/rates.h"

static Rates rates_of(const Options *o)
{
    Rates r = {
        .lr = setup_lr(o), .decay = setup_weight_decay(o), .at = o->checkpoint.updated_samples, .unit = 1};
    if (r.lr.by_steps) r.unit = (int64_t)r.lr.step;
    bool unknown = o->checkpoint.foreign && r.at == 0;               /* it does not say its samples */
    if (unknown) r.at = o->checkpoint.step * o->global_batch;
    else if (r.lr.by_steps && o->checkpoint.step_samples) r.at = r.at / o->checkpoint.step_samples * r.unit;
    return r;
}

/* "the learning rate of the next step" */
static const char *named_rate(char out[128], const RateDifference *d, int64_t unit)
{
    if (d->x == 0) snprintf(out, 128, "%s of the next step", rate_names[d->kind]);
    else
        snprintf(out, 128, "%s %" PRId64 " %s later", rate_names[d->kind], d->x,
                 unit > 1 ? "steps" : "samples");
    return out;
}

/* ---- what to do ---- */

static void add_length(char out[SAID], OptionIndex option, double samples, double now)
{
    if (samples != now) message_item(out, SAID, " ", "--%s %.0f", option_rows[option].name, samples);
}

/* The lengths in samples with which this run has the checkpoint's rates; "" where they do not depend on these
 * alone. */
static const char *kept_lengths(char out[SAID], const Options *o, const Options *was)
{
    Rates           now = rates_of(o), before = rates_of(was), kept = now;
    ScheduleSamples a = options_schedule_samples(o), b = options_schedule_samples(was);
    out[0]         = 0;
    kept.lr.warmup = b.warmup, kept.lr.decay = b.decay, kept.lr.wsd_decay = b.wsd;
    kept.decay.samples = before.decay.samples;
    if (now.lr.by_steps || b.warmup != floor(b.warmup) || rates_compare(&kept, &before).x >= 0) return out;
    add_length(out, OPTION_lr_warmup_samples, b.warmup, a.warmup);
    if (now.lr.style != LR_CONSTANT)
        add_length(out, OPTION_lr_decay_samples, (double)b.decay, (double)a.decay);
    if (now.lr.style == LR_WSD) add_length(out, OPTION_lr_wsd_decay_samples, (double)b.wsd, (double)a.wsd);
    if (now.decay.style != WEIGHT_DECAY_CONSTANT)
        add_length(out, OPTION_weight_decay_samples, (double)b.weight_decay, (double)a.weight_decay);
    return out;
}

static Status refuse_rates(const Options *o, const Options *was, OptionIndex cause, const RateDifference *d)
{
    char rate[128], value[64], lengths[SAID], keeps[SAID + 128];
    options_value_text(value, sizeof value, was, cause);
    kept_lengths(lengths, o, was);
    if (*lengths && !o->checkpoint_schedule)
        snprintf(keeps, sizeof keeps,
                 "--use-checkpoint-opt-param-scheduler keeps the checkpoint's schedule, which "
                 "is %s",
                 lengths);
    else
        snprintf(keeps, sizeof keeps, "--%s %s keeps the checkpoint's schedule, which counts steps of that",
                 option_rows[cause].name, value);
    return fail(BAD_OPTION, "%s, but %s was trained with %s: the schedule has other lengths in samples, and "
                "%s would be %.6g in place of %.6g; %s; --override-opt-param-scheduler takes the new one",
                TYPED(cause), o->checkpoint.path, value, named_rate(rate, d, rates_of(o).unit), d->now,
                d->was, keeps);
}

static Status compare_schedules(const Options *o, const Options *was)
{
    char           rate[128];
    Rates          now = rates_of(o), before = rates_of(was);
    RateDifference d     = rates_compare(&now, &before);
    bool           batch = o->global_batch != was->global_batch,
         sequence        = o->train_tokens && o->sequence != was->sequence;
    if (d.x < 0) return OK;
    if ((batch || sequence) && !o->override_schedule)
        return refuse_rates(o, was, batch ? OPTION_global_batch : OPTION_sequence, &d);
    log_line("%s is %.6g, and %.6g by the checkpoint's schedule", named_rate(rate, &d, now.unit), d.now,
             d.was);
    return OK;
}

Status setup_compare_rates(const Options *o)
{
    Options was;
    Status  status = options_saved_schedule(&was, o);
    if (status == OK) status = compare_schedules(o, &was);
    options_close(&was);
    return status;
}
