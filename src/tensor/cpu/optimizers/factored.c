/* Optimizers with second moments of rows, columns or blocks of rows: Adafactor and Adam-mini.
 *
 * A part of a matrix is visited row by row in tiles, and a chunk of work is a range of elements, so that it
 * may begin and end within a row.
 * N elements of a part of a matrix   R rows   C columns   B blocks of rows */
#include "base/exponential.h"
#include "tensor/cpu/states.h"

/* A run of elements of one row, at most a tile: those from `first` of the range, of row `row` and the columns
 * from `column` of the matrix. */
typedef struct { int64_t first, n, row, column; } RowRun;

INLINE RowRun run_at(int64_t i, int64_t end, int64_t first, int64_t columns, int64_t row0, int64_t column0)
{
    int64_t e = first + i, column = e % columns, n = columns - column;
    if (n > TILE) n = TILE;
    return (RowRun){ i, n < end - i ? n : end - i, row0 + e / columns, column0 + column };
}

/* ---- sums ---- */
/* row[r / group] += g g,   column[c] += g g */
typedef struct { const FactorSums *a; float factor; int64_t begin, rows; } SumsWork;

/* The numbers begin .. end - 1 of the rows, each of its rows in order. */
static CLONES void row_sums(void *context, int64_t begin, int64_t end)
{
    const SumsWork *s = context;
    const FactorSums *a = s->a;
    const float *g = flat(a->g_N);
    for (int64_t b = s->begin + begin; b < s->begin + end; b++) {
        int64_t from = (b * a->group - a->row0) * a->columns - a->first, to = from + a->group * a->columns;
        Doubles lanes = { 0 };
        double  rest = 0;
        if (from < 0) from = 0;
        if (to > a->g_N.dim[0]) to = a->g_N.dim[0];
        int64_t i = from;
        for (; i + LANES <= to; i += LANES) {
            Doubles x = doubles_of(g + i) * (double)s->factor;
            lanes += x * x;
        }
        for (; i < to; i++) {
            double x = (double)g[i] * (double)s->factor;
            rest += x * x;
        }
        ((double *)a->row_B.data)[b] += lanes_total(&lanes) + rest;
    }
}

/* Columns begin .. end - 1 of the part, rows in order. */
static CLONES void column_sums(void *context, int64_t begin, int64_t end)
{
    const SumsWork *s = context;
    const FactorSums *a = s->a;
    double *out = (double *)a->column_C.data + a->column0;
    for (int64_t r = 0; r < s->rows; r++) {
        int64_t row = (a->first / a->columns + r) * a->columns - a->first;     /* its first element in g */
        int64_t from = row + begin < 0 ? -row : begin;
        int64_t to = row + end > a->g_N.dim[0] ? a->g_N.dim[0] - row : end;
        const float *g = flat(a->g_N) + row;
        for (int64_t c = from; c < to; c++) {
            double x = (double)g[c] * (double)s->factor;
            out[c] += x * x;
        }
    }
}

CPU(factor_sums, FactorSums)
{
    int64_t N = a->g_N.dim[0];
    WANT(a->row_B, a->row_B.dim[0]);
    if (tensor_present(a->column_C)) WANT(a->column_C, a->column_C.dim[0]);
    WANT(a->g_N, N);
    if (N == 0) return;
    int64_t row = a->row0 + a->first / a->columns, last = a->row0 + (a->first + N - 1) / a->columns;
    SumsWork s = { a, (float)q->step_state->factor, row / a->group, last - row + 1 };
    team_for(q->team, last / a->group + 1 - s.begin, chunk_rows(a->group * a->columns), row_sums, &s);
    if (tensor_present(a->column_C)) team_for(q->team, a->columns, COLUMNS, column_sums, &s);
}

/* ---- moments ---- */
/* 1 - b = t^-rate */
static double growing_rest(const Queue *q, double rate)
{
    return natural_power((double)(q->step_state->updates + 1), -rate);
}

/* v = b v + (1 - b) sums / count */
CPU(moment_of_sums, MomentOfSums)
{
    double rest = a->rate > 0 ? growing_rest(q, a->rate) : 1 - a->beta;
    WANT(a->v_B, a->v_B.dim[0]);
    WANT(a->sums_B, a->v_B.dim[0]);
    if (q->step_state->skip) return;
    float *v = flat(a->v_B);
    for (int64_t i = 0; i < a->v_B.dim[0]; i++)
        v[i] = (float)((1 - rest) * (double)v[i] + rest * (double)flat(a->sums_B)[i] / a->count);
}

/* ---- Adafactor ---- */
/* g / max(sqrt(v), epsilon),   v = row column / max(mean of row, epsilon) */
typedef struct { const FactoredDirection *a; float factor, epsilon, mean; } FactoredWork;

static CLONES void factored_elements(void *context, int64_t begin, int64_t end)
{
    const FactoredWork *f = context;
    const FactoredDirection *a = f->a;
    for (int64_t i = begin; i < end; ) {
        RowRun run = run_at(i, end, a->first, a->columns, a->row0, a->column0);
        float  of_row = flat(a->row_R)[run.row] / f->mean, *g = flat(a->g_N) + i;
        const float *column = flat(a->column_C) + run.column;
        for (int64_t k = 0; k < run.n; k++) {
            float root = sqrtf(of_row * column[k]);
            g[k] = g[k] * f->factor / (root > f->epsilon ? root : f->epsilon);
        }
        i += run.n;
    }
}

CPU(factored_direction, FactoredDirection)
{
    double mean = 0;
    int64_t R = a->row_R.dim[0];
    WANT(a->row_R, R);
    WANT(a->column_C, a->column_C.dim[0]);
    WANT(a->g_N, a->g_N.dim[0]);
    if (q->step_state->skip) return;
    for (int64_t r = 0; r < R; r++) mean += (double)flat(a->row_R)[r];
    FactoredWork f = { a, (float)q->step_state->factor, (float)a->epsilon,
                       (float)fmax(mean / (double)R, a->epsilon) };
    team_for(q->team, a->g_N.dim[0], CHUNK_ELEMENTS, factored_elements, &f);
}

/* v = b v + (1 - b) g g,   g = g / max(sqrt(v), epsilon) */
typedef struct {
    const AdafactorDirection *a;
    StateRounding rounding;
    float         factor, epsilon, rest;
} VectorWork;

static CLONES void vector_elements(void *context, int64_t begin, int64_t end)
{
    const VectorWork *u = context;
    const AdafactorDirection *a = u->a;
    TileBuffer v_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *g = flat(a->g_N) + first, *v = state_tile(&v_tile, a->v_N, first, n);
        for (int64_t i = 0; i < n; i++) {
            float scaled = g[i] * u->factor;
            v[i] = (1 - u->rest) * v[i] + u->rest * scaled * scaled;
            float root = sqrtf(v[i]);
            g[i] = scaled / (root > u->epsilon ? root : u->epsilon);
        }
        states_store(&u->rounding, first, n, a->v_N, v, tensor_none(), NULL);
    }
}

CPU(adafactor_direction, AdafactorDirection)
{
    WANT(a->g_N, a->g_N.dim[0]);
    WANT(a->v_N, a->g_N.dim[0]);
    if (q->step_state->skip) return;
    VectorWork u = { a, rounding_of(q, a->stochastic, a->site, &a->place), (float)q->step_state->factor,
                     (float)a->epsilon, (float)growing_rest(q, a->rate) };
    team_for(q->team, a->g_N.dim[0], CHUNK_ELEMENTS, vector_elements, &u);
}

/* w -= lr decay w,   w -= alpha u / max(1, rms(u) / clip)
 * alpha = min(lr, 1 / sqrt(t)) max(epsilon, rms(w)) */
CPU(adafactor_update, AdafactorUpdate)
{
    WANT(a->squares_2, 2);
    const float *squares = flat(a->squares_2);
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    double w_rms = sqrt((double)squares[0] / a->count), u_rms = sqrt((double)squares[1] / a->count);
    double alpha = fmin(lr, 1 / sqrt((double)(q->step_state->updates + 1))) * fmax(a->epsilon, w_rms);
    cpu_weight_step(q, &(WeightStep){ a->w_N, a->param_N, a->u_N, (float)(1 - lr * decay),
                                      (float)(alpha / fmax(1, u_rms / a->clip)) });
}

/* ---- Adam-mini ---- */
/* m = beta1 m + (1 - beta1) g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon),   v = v[row / group] */
typedef struct {
    const BlockAdam *a;
    StateRounding rounding;
    float         factor, beta1, rest1, epsilon, unbias, shrink, rate;
} BlockWork;

static CLONES void block_elements(void *context, int64_t begin, int64_t end)
{
    const BlockWork *u = context;
    const BlockAdam *a = u->a;
    TileBuffer m_tile;
    for (int64_t i = begin; i < end; ) {
        RowRun run = run_at(i, end, a->first, a->columns, a->row0, 0);
        float *w = flat(a->w_N) + i, *m = state_tile(&m_tile, a->m_N, i, run.n);
        const float *g = flat(a->g_N) + i;
        float step = u->rate / (sqrtf(flat(a->v_B)[run.row / a->group] * u->unbias) + u->epsilon);
        for (int64_t k = 0; k < run.n; k++) {
            m[k] = u->beta1 * m[k] + u->rest1 * (g[k] * u->factor);
            w[k] = w[k] * u->shrink - step * m[k];
        }
        states_store(&u->rounding, i, run.n, a->m_N, m, tensor_none(), NULL);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, i, w, run.n);
        i += run.n;
    }
}

CPU(block_adam, BlockAdam)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    WANT(a->v_B, a->v_B.dim[0]);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double t = (double)(step_state->updates + 1), lr = STEP_LR(step_state, a->decoupled);
    BlockWork u = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1, .rest1 = (float)(1 - a->beta1),
        .epsilon = (float)a->epsilon,
        .unbias  = (float)(1 / (1 - natural_power(a->beta2, t))),
        .shrink  = (float)(1 - lr * (a->decay * step_state->weight_decay)),
        .rate    = (float)(lr / (1 - natural_power(a->beta1, t))) };
    team_for(q->team, N, CHUNK_ELEMENTS, block_elements, &u);
}
