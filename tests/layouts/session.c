/* Runs of one rank, and bounds. */
#include "layouts/session.h"
#include "layouts/choices.h"
#include <math.h>
#include <string.h>
#include "train/harness.h"

/* Of losses absolute (they are about 5.5), of gradient norms relative; in the first step, and after updates: for models with
 * norms before branches two to five times what 600 layouts of three seeds differ by; in double what is promised. Mixtures of
 * experts need no others, as all runs of a course take the same experts (choices.h). */
typedef struct { double loss, norm, later_loss, later_norm; } Within;
#define BF16 { 1e-3, 5e-3, 2e-3, 8e-3 }
static const Within within[TYPES] = {                        /* by draw_size of TYPE */
    { 1e-12, 1e-12, 1e-12, 1e-11 }, { 2e-7, 5e-7, 5e-6, 3e-5 }, BF16, { 2e-4, 6e-4, 1e-3, 3e-3 }, BF16, BF16,
};
static const Within muon_fp32 = { 2e-7, 5e-7, 3e-4, 1e-3 };  /* its iterations are in bf16 */
static const Within soap_double = { 1e-12, 1e-12, 1e-11, 1e-10 };  /* vectors of eigenvalues that are near one another */
/* With norms after branches, whose outputs are small at first, roundings of these weigh several times as much, and Muon's steps
 * differ most. In double these models keep the bounds of the others, which layouts.double shows; what remains here in 16 bits
 * sees gross errors alone, as copies.c sees every difference between ranks. */
enum { AFTER_BRANCHES_FP32 = 4, AFTER_BRANCHES = 8, AFTER_BRANCHES_LATER = 64, AFTER_BRANCHES_GAP = 4 };
/* What a router may prefer other experts by in the first step than those that one rank chose, by rounding alone */
static const double gap_within[TYPES] = { 0, 1e-5, 1e-2, 1e-3, 1e-2, 1e-2 };
/* Of weights after the steps, absolute. Adam's, LAMB's and Muon's first steps have the size of the learning rate, 1e-3,
 * however small the gradient is: where rounding to 16 bits decides its sign, weights differ by two steps in opposite
 * directions, which is no less than what a bug does to them. copies.c compares such weights to the bit instead. Lion's steps all have
 * that size, also where a gradient is 0 but for rounding, as that of a key's bias is, in double too: three steps in opposite directions. So may Sophia's,
 * and a sign that 1-bit LAMB sends. SOAP's vectors turn by roundings over the distance of their eigenvalues. */
#define NONE INFINITY
static const struct { const char *optimizer; double within[TYPES]; } weights[OPTIMIZERS] = {       /* in the order of values.c */
    { "adam",        { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "two-rates",   { 1e-11, 1e-3, NONE, NONE, NONE, NONE } },
    { "sgd",         { 1e-11, 3e-8, 4e-5, 1e-5, 4e-5, NONE } },
    { "lion",        { 6.1e-3, 6.1e-3, NONE, NONE, NONE, NONE } },
    { "lamb",        { 1e-11, 3e-5, NONE, NONE, NONE, NONE } },
    { "adam-l2",     { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "adopt",       { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "average",     { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "sgd-average", { 1e-11, 3e-8, 4e-5, 1e-5, 4e-5, NONE } },
    { "sophia",      { 6.1e-3, 6.1e-3, NONE, NONE, NONE, NONE } },
    { "adafactor",   { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "adam-mini",   { 1e-11, 5e-4, NONE, NONE, NONE, NONE } },
    { "muon",        { 1e-11, 5e-3, NONE, NONE, NONE, NONE } },
    { "adam8bit",    { 1e-11, 1e-3, NONE, NONE, NONE, NONE } },
    { "galore",      { 1e-11, 1e-3, NONE, NONE, NONE, NONE } },
    { "galore8bit",  { 1e-11, 1e-3, NONE, NONE, NONE, NONE } },
    { "shampoo",     { 1e-11, 1e-3, NONE, NONE, NONE, NONE } },
    { "soap",        { 1e-10, 1e-3, NONE, NONE, NONE, NONE } },
    { "onebit-lamb", { 1e-11, 6.1e-3, NONE, NONE, NONE, NONE } },
};

static double weights_within(int type, int rule)
{
    const char *name = values[value_named("adam") + rule].name;
    CHECK(rule < OPTIMIZERS && !strcmp(weights[rule].optimizer, name), "bounds of weights have no row of optimizer %s at %d", name, rule);
    return weights[rule].within[type];
}

static const Within *within_of(int type, int rule)
{
    const Value *value = &values[value_named("adam") + rule];
    if (type == 0 && !strcmp(value->name, "soap")) return &soap_double;
    return type == 1 && value->size == 1 ? &muon_fp32 : &within[type];
}

const Reference *session_reference(Session *session, const Draw *d)
{
    char words[WORDS_MOST];
    draw_words(words, d, true);
    for (int i = 0; i < session->references; i++)
        if (!strcmp(session->reference[i].words, words)) return &session->reference[i];
    CHECK(session->references < REFERENCES, "%d runs of one rank", REFERENCES);
    Reference *r = &session->reference[session->references++];
    memcpy(r->words, words, sizeof words);
    snprintf(r->folder, sizeof r->folder, "%s/one%d", scratch_folder(), session->references);
    r->result = result_new();
    r->choices = choices_new();
    run_layout(r->result, &(LayoutRun){ .words = r->words, .data = session->data, .save = r->folder,
        .choices = r->choices, .steps = STEPS, .seconds = session->seconds });
    choices_written(r->choices);
    return r;
}

static void differences(double off[DIFFERENCES], const Result *mine, const Result *one, int first)
{
    for (int i = 0; i < DIFFERENCES; i++) off[i] = 0;
    for (int s = first; s < STEPS; s++) {
        int later = s > 0 ? 2 : 0;
        off[later]     = larger(off[later], fabs(mine->loss[s - first] - one->loss[s]));
        off[later + 1] = larger(off[later + 1], fabs(mine->norm[s - first] / one->norm[s] - 1));
    }
    off[2] = larger(off[2], fabs(mine->valid - one->valid));
    off[4] = mine->weights.off;
}

const char *session_judge(Session *session, const Draw *d, const Result *mine, const Result *one, int first,
                          char why[FAILURE_MOST])
{
    static const char *const what[DIFFERENCES] = { "loss of step 1", "gradient norm of step 1",
        "loss after updates", "gradient norm after updates", "weight" };
    int kind = draw_size(d, MLP), type = draw_size(d, TYPE), rule = d->value[OPTIMIZER] - value_named("adam");
    const Within *w = within_of(type, rule);
    bool after = type > 0 && draw_size(d, MODEL) > 0, muon = values[d->value[OPTIMIZER]].size == 1;
    double wide = !after ? 1 : type > 1 || muon ? AFTER_BRANCHES : AFTER_BRANCHES_FP32;
    double later = !after ? 1 : type > 1 ? AFTER_BRANCHES_LATER : AFTER_BRANCHES, gap_bound = gap_within[type] * (after ? AFTER_BRANCHES_GAP : 1);
    double bound[DIFFERENCES] = { wide * w->loss, wide * w->norm, wide * w->later_loss, later * w->later_norm,
        wide * weights_within(type, rule) };
    double off[DIFFERENCES], *worst = session->worst[kind][type][rule];
    if (one->failure[0])  return snprintf(why, FAILURE_MOST, "one rank: %.500s", one->failure), why;
    if (mine->failure[0]) return snprintf(why, FAILURE_MOST, "%.500s", mine->failure), why;
    differences(off, mine, one, first);
    session->copies += mine->copies;
    session->rounded += mine->rounded;
    ChoiceGap *gap = &session->gap[type];
    gap->replaced += mine->gap.replaced;
    for (int i = 0; i < 2; i++) gap->largest[i] = larger(gap->largest[i], mine->gap.largest[i]);
    for (int i = 0; i < DIFFERENCES; i++) worst[i] = larger(worst[i], off[i]);
    session->judged[kind][type][rule]++;
    if (!(mine->gap.largest[0] <= gap_bound))
        return snprintf(why, FAILURE_MOST, "in step 1 a router prefers other experts than on one rank by %.2g, and %.1e is allowed",
                        mine->gap.largest[0], gap_bound), why;
    for (int i = 0; i < DIFFERENCES; i++)
        if (!(off[i] <= bound[i]))
            return snprintf(why, FAILURE_MOST, "%s differs by %.2g, and %.1e is allowed (%s)", what[i], off[i],
                            bound[i], i == 4 ? mine->weights.worst : "against one rank"), why;
    bool generated = draw_size(d, TYPE) == 0;                              /* in the others logits are near */
    for (int i = 0; generated && i < GENERATED; i++)
        if (mine->ids[i] != one->ids[i])
            return snprintf(why, FAILURE_MOST, "generated token %d is %d, on one rank %d", i, (int)mine->ids[i],
                            (int)one->ids[i]), why;
    return NULL;
}

void session_print_worst(const Session *session)
{
    static const char *const kind[KINDS] = { "dense", "experts" };
    printf("largest differences from one rank, and what is allowed:\n%32s %17s %17s  after updates %17s %17s %17s\n", "", "loss", "norm", "loss",
           "norm", "weight");
    for (int i = 0; i < KINDS * TYPES * OPTIMIZERS; i++) {
        int k = i / OPTIMIZERS / TYPES, t = i / OPTIMIZERS % TYPES, o = i % OPTIMIZERS;
        const double *off = session->worst[k][t][o];
        const Within *w = within_of(t, o);
        if (session->judged[k][t][o] == 0) continue;
        printf("%-7s %-11s %-11s %3d runs %8.1e %8.1e %8.1e %8.1e %23.1e %8.1e %8.1e %8.1e", kind[k], values[value_named("double") + t].name,
               values[value_named("adam") + o].name, session->judged[k][t][o], off[0], w->loss, off[1], w->norm, off[2], w->later_loss,
               off[3], w->later_norm);
        printf(" %8.1e %8.1e\n", off[4], weights_within(t, o));
    }
    printf("to the bit: %ld parts of weights that another rank holds too, %ld weights and their rounded master weights\n",
           session->copies, session->rounded);
    for (int t = 1; t < TYPES; t++)
        if (session->gap[t].replaced > 0)
            printf("experts %-11s %5lld choices were taken from one rank; the routers preferred others by %.1e in step 1, %.1e is allowed, later by %.1e\n",
                   values[value_named("double") + t].name, (long long)session->gap[t].replaced, session->gap[t].largest[0], gap_within[t],
                   session->gap[t].largest[1]);
}
