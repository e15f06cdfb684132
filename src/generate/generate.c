/* Generation with a key-value cache, in rounds of prompts. Every rank knows the rows of all data ranks and
 * takes the same decisions about them, so that the only messages are those of a forward, the logits over tp,
 * and the drawn ids over pp and the data ranks. The letters are those of session.h. */
#include "generate/generate.h"
#include <math.h>
#include "generate/session.h"

/* ---- the ids drawn after a forward ---- */

/* The logits of row i of this rank, from the shards of all tp ranks. */
static void logits_of(const Session *x, int64_t i)
{
    Tensor all = x->logits_RnV;
    int64_t vocabulary = x->g->executor->ctx.config->vocabulary, V = all.dim[2];
    for (int64_t v = 0; v < vocabulary; v++) {
        int64_t at = v / V * all.stride[0] + i * all.stride[1] + v % V;
        x->logits[v] = all.dtype == F64 ? ((const double *)all.data)[at]
                                        : (double)((const float *)all.data)[at];
    }
    CHECK(x->g->goes_on || isfinite(x->logits[0]),
          "the logits are not finite: the weights of the checkpoint are broken");
}

/* The host reads logits here and nowhere else. All tp ranks draw the same ids from the same numbers. */
static void draw_own(Session *x)
{
    const Generation *g = x->g;
    int32_t *id = x->id_n.data;
    int64_t ids = g->ids ? g->ids : g->executor->ctx.config->vocabulary;
    for (int64_t i = 0; id && i < x->n; i++) {
        const Row *row = session_own_rows(x) + i;
        id[i] = 0;
        if (row->done) continue;
        logits_of(x, i);
        if (g->look) g->look(g->context, row->prompt, x->logits);
        bool broken = !isfinite(x->logits[0]);
        id[i] = broken ? GENERATED_END : sample_id(x->logits, ids, &g->sampling, row->prompt, row->made);
    }
}

/* The ids of all rows, [n] of each of the dp x cp ranks, the same everywhere; NULL in a dry run. */
static const int32_t *draw(Session *x)
{
    const Generation *g = x->g;
    Queue *q = g->executor->ctx.queue;
    int P = comm_size(g->pp);
    if (session_holds_head(x) && comm_size(g->tp) > 1)
        comm_all_gather(g->tp, q, x->logits_RnV, x->logits_nV);                   /* <-> tp: all-gather */
    queue_wait(q);
    if (session_holds_head(x)) draw_own(x);
    if (P > 1) comm_all_gather(g->pp, q, x->id_Pn, x->id_n);                      /* <-> pp: all-gather */
    const ScheduleShape *shape = &g->schedule->shape;
    int head = schedule_place(shape, shape->stages * shape->chunks - 1).stage;       /* the stage that drew */
    Tensor ids = tensor_flat(x->id_Pn, head * x->n, x->n);
    if (comm_size(g->data) > 1) comm_all_gather(g->data, q, x->id_Dn, ids);       /* <-> dp: all-gather */
    queue_wait(q);
    return comm_size(g->data) > 1 ? x->id_Dn.data : ids.data;
}

/* ---- rounds ---- */

/* Prompts `from` and on: each data rank, then each micro-batch gets one before any gets a second. Returns the
 * positions of the forward that begins the round, the same on all data ranks: experts want it, and the ranks
 * wait for each other anyway. */
static int64_t round_begin(Session *x, int64_t from, int64_t prompts)
{
    const Generation *g = x->g;
    const Region *tp = &g->executor->ctx.tp;
    int64_t D = data_ranks(g), widest = 1, unit = tp->sequence_parallel ? comm_size(g->tp) : 1;
    x->step = 0;
    for (int64_t j = 0; j < x->N; j++) {
        int64_t each = j / D, r = j % D * x->n + each % g->micros * g->rows + each / g->micros;
        const Prompt *p = from + j < prompts ? &x->prompt[from + j] : NULL;
        x->row[r] = (Row){ .prompt = -1, .count = 1, .done = true };
        if (p) x->row[r] = (Row){ .prompt = from + j, .count = p->count, .last = p->id[p->count - 1] };
    }
    for (int64_t r = 0; r < x->N; r++)
        if (x->row[r].count > widest) widest = x->row[r].count;
    /* a sequence that is distributed has its whole length */
    if (cp_ranks(g) > 1) return g->executor->ctx.config->sequence / cp_ranks(g);
    int64_t most = g->executor->ctx.config->sequence, even = (widest + unit - 1) / unit * unit;
    return even < most ? even : most;
}

/* Gives out the ids of all rows. Returns whether any row has more to come. */
static bool take(Session *x, const int32_t *ids)
{
    const Generation *g = x->g;
    bool more = false;
    for (int64_t r = 0; r < x->N; r++) {
        Row *row = &x->row[r];
        int32_t id = ids[r / x->n * cp_ranks(g) * x->n + r % x->n];         /* of cp rank 0 of a data rank */
        if (row->done) continue;
        bool ended = id == g->end || id == GENERATED_END;
        if (!ended) {
            g->emit(g->context, row->prompt, id);
            row->last = id;
            row->made++;
        }
        row->done = ended || row->made >= x->prompt[row->prompt].most;
        if (row->done) g->emit(g->context, row->prompt, GENERATED_END);
        more |= !row->done;
    }
    return more;
}

void generate(const Generation *g, const Prompt *prompt, int64_t prompts)
{
    Session x = session_open(g, prompt);
    g->executor->ctx.drop = false;
    if (comm_dry(g->tp)) {
        int64_t widest = 1;
        for (int64_t from = 0; from < prompts; from += x.N) {
            int64_t s = round_begin(&x, from, prompts);
            if (s > widest) widest = s;
        }
        session_forward(&x, widest, false);
        draw(&x);
        session_forward(&x, 1, true);
        draw(&x);
    }
    for (int64_t from = 0; !comm_dry(g->tp) && from < prompts; from += x.N) {
        session_forward(&x, round_begin(&x, from, prompts), false);           /* <-> tp, cp, pp, data */
        while (take(&x, draw(&x))) session_forward(&x, 1, true);              /* <-> tp, cp, pp, data */
    }
    session_close(&x);
}
