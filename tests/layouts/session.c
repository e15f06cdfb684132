/* Runs of one rank, and bounds. */
#include "layouts/session.h"
#include <math.h>
#include <string.h>
#include "train/harness.h"

/* Of losses absolute (they are about 5.5), of gradient norms relative, of weights absolute; in the first step, and
 * after updates. Weights are compared in double alone (docs/numerics.md says why). */
typedef struct { double loss, norm, later_loss, later_norm, weights; } Within;
static const Within within[TYPES] = {                        /* by draw_size of TYPE */
    { 1e-12, 1e-12, 1e-12, 1e-11, 1e-11 },
    { 2e-6,  1e-5,  1e-5,  1e-4,  INFINITY },
    { 1e-3,  3e-2,  2e-3,  3e-2,  INFINITY },
};

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
    run_layout(r->result, &(LayoutRun){ .words = r->words, .data = session->data, .save = r->folder,
        .steps = STEPS, .seconds = session->seconds });
    return r;
}

/* A NaN is the largest. */
static double larger(double a, double b) { return isnan(b) || b > a ? b : a; }

static void differences(double off[DIFFERENCES], const Result *mine, const Result *one, int first)
{
    for (int i = 0; i < DIFFERENCES; i++) off[i] = 0;
    for (int s = first; s < STEPS; s++) {
        int later = s > 0 ? 2 : 0;
        off[later]     = larger(off[later], fabs(mine->loss[s - first] - one->loss[s]));
        off[later + 1] = larger(off[later + 1], fabs(mine->norm[s - first] / one->norm[s] - 1));
    }
    off[2] = larger(off[2], fabs(mine->valid - one->valid));
    off[4] = mine->weights;
}

const char *session_judge(Session *session, const Draw *d, const Result *mine, const Result *one, int first,
                          char why[FAILURE_MOST])
{
    static const char *const what[DIFFERENCES] = { "loss of step 1", "gradient norm of step 1",
        "loss after updates", "gradient norm after updates", "weight" };
    const Within *w = &within[draw_size(d, TYPE)], *after = w;
    if (draw_size(d, TYPE) == 1 && draw_size(d, OPTIMIZER) == 1) after = &within[2];    /* Muon iterates in bf16 */
    double bound[DIFFERENCES] = { w->loss, w->norm, after->later_loss, after->later_norm, w->weights };
    double off[DIFFERENCES];
    double *worst = session->worst[draw_size(d, TYPE)];
    if (one->failure[0])  return snprintf(why, FAILURE_MOST, "one rank: %.500s", one->failure), why;
    if (mine->failure[0]) return snprintf(why, FAILURE_MOST, "%.500s", mine->failure), why;
    differences(off, mine, one, first);
    for (int i = 0; i < DIFFERENCES; i++) worst[i] = larger(worst[i], off[i]);
    for (int i = 0; i < DIFFERENCES; i++)
        if (!(off[i] <= bound[i]))
            return snprintf(why, FAILURE_MOST, "%s differs by %.2g, and %.0e is allowed (%s)", what[i], off[i],
                            bound[i], i == 4 ? mine->worst : "against one rank"), why;
    bool generated = draw_size(d, TYPE) == 0;                              /* in the others logits are near */
    for (int i = 0; generated && i < GENERATED; i++)
        if (mine->ids[i] != one->ids[i])
            return snprintf(why, FAILURE_MOST, "generated token %d is %d, on one rank %d", i, (int)mine->ids[i],
                            (int)one->ids[i]), why;
    return NULL;
}

void session_print_worst(const Session *session)
{
    static const char *const type[TYPES] = { "double", "fp32", "bf16" };
    for (int t = 0; t < TYPES; t++) {
        const double *w = session->worst[t];
        printf("%-6s off by at most: loss %.1e, norm %.1e; after updates loss %.1e, norm %.1e, weights %.1e\n",
               type[t], w[0], w[1], w[2], w[3], w[4]);
    }
}
