/* The arithmetic of train_aGPT_7B.sh: ranks, batch and steps, each of which needs the one before. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "conf/conf.h"
#include "compat/alcf/agpt_internal.h"

enum { NUMBER_MAX = 1 << 20 };                      /* of ranks, and of micro-batches of a step */

int64_t agpt_number(Agpt *a, int v)
{
    const AgptValue *value = &a->value[v];
    const Dialect   *row   = agpt_row(value->name, NULL);
    double           most  = row && row->option >= 0 ? option_rows[row->option].high : NUMBER_MAX;
    char            *end   = NULL;
    long long        n     = value->text ? strtoll(value->text, &end, 10) : 1;
    if (!value->text || (end != value->text && !*end && n >= 1 && (double)n <= most)) return n;
    agpt_refuse(a, "%s=%s is no whole number from 1 to %.0f; give one", value->name, value->text, most);
    return 1;
}

/* Ranks: said, or those of the hosts; where nothing says how many a host has, as few as the layout needs. */
static void count_world(Agpt *a, int64_t unit)
{
    const Options   *o     = a->o;
    const AgptValue *said  = &a->value[V_WORLD_SIZE];
    int64_t          hosts = a->found.machine.hosts;
    bool             typed = options_typed_by_person(o, OPTION_ranks);
    a->world               = unit;
    while (a->world % hosts) a->world += unit;
    if (a->found.machine.per_host) a->world = hosts * a->found.machine.per_host;
    if (said->text) a->world = agpt_number(a, V_WORLD_SIZE);
    if (typed && said->text && o->ranks != a->world)
        agpt_refuse(a, "WORLD_SIZE=%s, but there are %" PRId64 " ranks; leave WORLD_SIZE out", said->text,
               o->ranks);
    if (typed) a->world = o->ranks;
}

static void divide_ranks(Agpt *a)
{
    int64_t tp = agpt_number(a, V_TP), pp = agpt_number(a, V_PP), sp = agpt_number(a, V_SP);
    int64_t unit = tp * pp * sp;
    count_world(a, unit);
    a->data_parallel = a->world >= unit ? a->world / unit : 1;
    if (a->world % unit == 0) return;
    int64_t below = a->world / unit * unit;
    agpt_refuse(a,
           "WORLD_SIZE %" PRId64 " is not a multiple of TP %" PRId64 " x PP %" PRId64 " x SP %" PRId64
           " = %" PRId64 ", and the data-parallel ranks are WORLD_SIZE / (TP x PP x SP); give "
           "WORLD_SIZE=%" PRId64 ", or other sizes",
           a->world, tp, pp, sp, unit, below ? below : unit);
}

/* GLOBAL_BATCH = MICRO_BATCH x data-parallel ranks x GRAD_ACC_STEPS */
static void compute_batch(Agpt *a)
{
    int64_t micro = agpt_number(a, V_MICRO_BATCH), steps = agpt_number(a, V_GRAD_ACC_STEPS),
            dp      = a->data_parallel;
    int64_t    unit = micro * dp, all = unit * steps, global = all;
    AgptValue *batch = &a->value[V_GLOBAL_BATCH];
    if (batch->text) global = agpt_number(a, V_GLOBAL_BATCH);
    else *batch = (AgptValue){.name = batch->name, .text = agpt_held(a, "%" PRId64, all)};
    char sum[256];
    snprintf(sum, sizeof sum,
             "MICRO_BATCH %" PRId64 " x %" PRId64 " data-parallel ranks (WORLD_SIZE %" PRId64
             " / (TP %s x PP %s x SP %s))",
             micro, dp, a->world, a->value[V_TP].text, a->value[V_PP].text, a->value[V_SP].text);
    if ((double)all > option_rows[OPTION_global_batch].high)
        agpt_refuse(a,
                    "GRAD_ACC_STEPS=%" PRId64 " x %s are %" PRId64
                    " samples of a step; give fewer, up to %.0f",
               steps, sum, all, option_rows[OPTION_global_batch].high);
    else if (agpt_given(a, V_GRAD_ACC_STEPS) && global != all)
        agpt_refuse(a,
               "GLOBAL_BATCH=%s is not %s x GRAD_ACC_STEPS %" PRId64 " = %" PRId64 "; give one of the two, "
               "or make them fit",
               batch->text, sum, steps, all);
    else if (global % unit)
        agpt_refuse(a,
               "GLOBAL_BATCH=%s is no multiple of %s = %" PRId64 "; give %" PRId64
               " for GRAD_ACC_STEPS=%" PRId64,
               batch->text, sum, unit, (global / unit + 1) * unit, global / unit + 1);
}

/* TRAIN_ITERS = TRAIN_TOKENS / SEQ / GLOBAL_BATCH, without TRAIN_ITERS of the script's own number of tokens.
 * The run gets them as samples, because a run that resumes with another batch has as many tokens left, and
 * not as many steps. */
static void compute_steps(Agpt *a)
{
    AgptValue *steps = &a->value[V_TRAIN_ITERS], *tokens = &a->value[V_TRAIN_TOKENS];
    if (tokens->ours || options_typed_by_person(a->o, OPTION_train_samples)) return;
    if (!tokens->text && steps->text) return;
    if (!tokens->text) tokens->text = "4673780159710";
    int64_t sample = agpt_number(a, V_SEQ), batch = agpt_number(a, V_GLOBAL_BATCH),
            all   = agpt_number(a, V_TRAIN_TOKENS);
    if (a->refused.count) return;
    int64_t whole = all / sample / batch;
    double  most  = option_rows[OPTION_train_iters].high;
    if ((double)whole > most)
        agpt_refuse(a,
               "TRAIN_TOKENS=%s are %" PRId64 " steps (TRAIN_TOKENS / SEQ %s / GLOBAL_BATCH %s), and %.0f "
               "are possible; give fewer tokens",
               tokens->text, whole, a->value[V_SEQ].text, a->value[V_GLOBAL_BATCH].text, most);
    else if (agpt_given(a, V_TRAIN_ITERS) && agpt_number(a, V_TRAIN_ITERS) != whole)
        agpt_refuse(a,
               "TRAIN_TOKENS=%s are %" PRId64 " steps (TRAIN_TOKENS / SEQ %s / GLOBAL_BATCH %s), but %s=%s; "
               "give one of the two",
               tokens->text, whole, a->value[V_SEQ].text, a->value[V_GLOBAL_BATCH].text, steps->name,
               steps->text);
    else if (!whole)
        agpt_refuse(a,
               "TRAIN_TOKENS=%s is less than a step, SEQ %s x GLOBAL_BATCH %s = %" PRId64
               " tokens; give that or more",
               tokens->text, a->value[V_SEQ].text, a->value[V_GLOBAL_BATCH].text, sample * batch);
    else if (a->value[V_LR_DECAY_ITERS].text)
        *steps = (AgptValue){.name = steps->name, .text = agpt_held(a, "%" PRId64, whole)};
    else a->samples = whole * batch, *steps = (AgptValue){.name = steps->name};
}

void agpt_compute(Agpt *a)
{
    divide_ranks(a);
    if (!a->refused.count) compute_batch(a);
    if (!a->refused.count) compute_steps(a);
}

const char *agpt_initial_deviation(Agpt *a)
{
    int64_t square = 2000000 / (5 * agpt_number(a, V_HIDDEN)), root = (int64_t)sqrt((double)square * 1e6);
    return agpt_held(a, "0.%06" PRId64, root);
}
