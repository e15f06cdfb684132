/* Adafactor (Shazeer & Stern 2018, arXiv 1804.04235), as PyTorch's: of a matrix the second moments of rows
 * and columns stand for those of its elements; no first moment; steps are relative to the root mean square of
 * the weights, and the direction's is clipped. All of these are of whole logical tensors.
 *
 * Two phases: sums of squares of rows and columns of g, from which every rank that has elements of the matrix
 * makes the same moments; then sums of squares of the weights and of the direction. */
#include "optim/optimizer.h"

/* sums = { rows, columns } */
static int64_t moment_sums(const Param *param)
{
    int r = param->dims == PARAM_DIMS ? 1 : 0;
    return param->global[r] + param->global[r + 1];
}

static void measure_moments(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                            Tensor out_N)
{
    Queue *q = run->queue;
    factor_sums(q, (FactorSums){ .row_B = tensor_flat(out_N, 0, p->rows),
        .column_C = tensor_flat(out_N, p->rows, p->columns), .g_N = tensor_flat(p->g, first, count),
        .first = (p->first + first) % (p->local_rows * p->local_columns), .columns = p->local_columns,
        .row0 = p->row0, .column0 = p->column0, .group = 1 });
}

static void matrix_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    (void)q;
    (void)s;
    (void)p;                                 /* what is updated depends on sums */
}

static void vector_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    adafactor_direction(q, (AdafactorDirection){ .g_N = p->g, .v_N = p->state[0],
        .rate = s->adafactor.decay_rate, .epsilon = s->adafactor.epsilon1, .stochastic = s->stochastic,
        .site = p->site, .place = p->place });
}

/* All matrices of a piece's moments, also of those of which it has no elements: they are saved as a whole. */
static void moments(const OptimizerRun *run, const OptimizerPiece *p)
{
    for (int64_t i = 0; i < p->matrices; i++) {
        PieceMatrix m = { .number = i };
        Tensor sums_N = piece_sums(run->sums_N, p, 0, i);
        moment_of_sums(run->queue, (MomentOfSums){ .v_B = piece_numbers(p, 0, &m),
            .sums_B = tensor_flat(sums_N, 0, p->rows), .rate = run->settings->adafactor.decay_rate,
            .count = (double)p->columns });
        moment_of_sums(run->queue, (MomentOfSums){ .v_B = piece_numbers(p, 1, &m),
            .sums_B = tensor_flat(sums_N, p->rows, p->columns), .rate = run->settings->adafactor.decay_rate,
            .count = (double)p->rows });
    }
}

static void finish_moments(const OptimizerRun *run, const UpdateRule *rule)
{
    for (int i = 0; i < run->pieces; i++) {
        const OptimizerPiece *p = &run->piece[i];
        if (p->rule != rule) continue;
        moments(run, p);
        for (PieceMatrix m = { 0 }; piece_next(p, &m); )
            factored_direction(run->queue, (FactoredDirection){ .g_N = piece_part(p->g, &m),
                .row_R = piece_numbers(p, 0, &m), .column_C = piece_numbers(p, 1, &m), .first = m.first,
                .columns = p->local_columns, .row0 = p->row0, .column0 = p->column0,
                .epsilon = run->settings->adafactor.epsilon1 });
    }
}

/* sums = { w w, u u } */
static int64_t norm_sums(const Param *param) { (void)param; return 2; }

static void measure_norms(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                          Tensor out_2)
{
    Queue *q = run->queue;
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(out_2, 0, 1), .x_N = tensor_flat(p->w, first, count) });
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(out_2, 1, 1), .x_N = tensor_flat(p->g, first, count) });
}

static void finish_norms(const OptimizerRun *run, const UpdateRule *rule)
{
    for (int i = 0; i < run->pieces; i++) {
        const OptimizerPiece *p = &run->piece[i];
        if (p->rule != rule) continue;
        for (PieceMatrix m = { 0 }; piece_next(p, &m); )
            adafactor_update(run->queue, (AdafactorUpdate){ .w_N = piece_part(p->w, &m),
                .param_N = piece_part(p->param, &m), .u_N = piece_part(p->g, &m),
                .squares_2 = piece_sums(run->sums_N, p, 1, m.number), .count = (double)(p->rows * p->columns),
                .epsilon = run->settings->adafactor.epsilon2, .clip = run->settings->adafactor.clip,
                .decay = p->decayed, .decoupled = p->decoupled });
    }
}

const UpdateRule adafactor_matrix_rule = { .states = 2,
    .state = { { "row", STATE_EXACT, PER_ROW }, { "column", STATE_EXACT, PER_COLUMN } },
    .begin = matrix_begin, .phases = 2,
    .phase = { { moment_sums, measure_moments, finish_moments },
               { norm_sums,   measure_norms,   finish_norms   } } };
const UpdateRule adafactor_vector_rule = { .states = 1,
    .state = { { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } }, .begin = vector_begin, .phases = 2,
    .phase = { { NULL, NULL, NULL }, { norm_sums, measure_norms, finish_norms } } };
