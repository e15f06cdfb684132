/* 1-bit LAMB (Li et al. 2021, arXiv 2104.06069). For OptimizerSettings.freeze updates it is LAMB without bias
 * corrections. Then second moments and the means of trust ratios stay as they are, gradients are no longer
 * summed over data-parallel ranks, the workers. Their momenta are, by a compressed all-reduce: each worker
 * sends every other one the signs of a part of its own momentum, and one size for all elements; sums the part
 * that it is sent; and sends all the signs of that sum. What signs lose is added the next time.
 *
 * The sizes of a worker's momentum, and of the sums, are those of all elements of a family in the whole
 * model. So nothing but the number of workers changes a result, whatever ranks hold parts of a tensor. A
 * single worker sends nothing and keeps its momentum as it is. */
#include "optim/optimizer.h"

enum { MOMENTUM, SQUARE, FRESH, NUMBERS, ERROR, SUMMED, STATES };

static bool compresses(const OptimizerSettings *s, int64_t updates) { return updates >= s->freeze; }

static void add_squares(Queue *q, Tensor out_1, Tensor x_N)
{
    square_sum(q, (SquareSum){ .out_1 = out_1, .x_N = x_N });
}

static int64_t worker_count(const CompressedPieces *x) { return comm_size(x->workers); }

/* A number for each matrix, which has two sums. */
static Tensor most_of(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix)
{
    return tensor_flat(run->compressed.most_M, p->sums_at[0] / 2 + matrix, 1);
}

/* Of the sums for each worker that of `worker`; the one for the family. */
static Tensor of_worker(const OptimizerRun *run, Tensor sums_W, ParamFamily family, int64_t worker,
                        int64_t count)
{
    const StateSizes *sizes = &run->sizes;
    int64_t at = family == PARAMS_DENSE ? 0 : sizes->workers[PARAMS_DENSE];
    return tensor_flat(sums_W, at + worker, count);
}

static int64_t family_sums(const OptimizerRun *run)
{
    return run->sizes.workers[PARAMS_DENSE] + run->sizes.workers[PARAMS_EXPERTS];
}

static Tensor of_family(const OptimizerRun *run, Tensor sums_W, ParamFamily family)
{
    return tensor_flat(sums_W, family_sums(run) + family, 1);
}

/* Adds `count` of this rank's sums over the world. Each rank needs the sizes of all workers of its elements,
 * so that sums over the stages of a worker alone would save no more than a half of 4 bytes a worker; the
 * sums of a step (train/step_sums.c) are 24 bytes a rank. */
static void sums_join(OptimizerRun *run, int64_t first, int64_t count)
{
    CompressedAllReduce *x = &run->compressed;
    Tensor own = tensor_flat(x->own_W, first, count), all = tensor_flat(x->sums_W, first, count);
    round_sums(run->queue, (RoundSums){ .y_N = all, .x_N = own });
    comm_all_reduce(x->world, run->queue, all, run->scratch);                     /* <-> world: all-reduce */
    fill_zero(run->queue, (FillZero){ .y = own });
}

/* ---- before the first all-reduce: scales that bring the momenta of all tensors to one mean size ---- */

static void measure_momentum(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                             Tensor out_2)
{
    add_squares(run->queue, tensor_flat(out_2, 0, 1), tensor_flat(p->state[MOMENTUM], first, count));
}

static Tensor square_of(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix)
{
    return tensor_flat(piece_sums(run->sums_N, p, 0, matrix), 0, 1);
}

static void scales_set(OptimizerRun *run)
{
    CompressedAllReduce *x = &run->compressed;
    Tensor own_1 = of_family(run, x->own_W, PARAMS_DENSE), total_1 = of_family(run, x->sums_W, PARAMS_DENSE);
    optimizer_measure(run, 0, measure_momentum);                                               /* <-> stage */
    fill_zero(run->queue, (FillZero){ .y = x->own_W });
    for (int b = 0; b < x->count; b++)
        for (int i = x->of[b].first; i < x->of[b].end; i++) {
            const OptimizerPiece *p = &run->piece[i];
            double count = (double)(p->rows * p->columns);
            /* of all data-parallel ranks the first; experts are counted where they are */
            bool counts = p->saves && x->of[b].counts && comm_rank(x->of[b].workers) == 0 &&
                          p->row0 == 0 && p->column0 == 0;
            int64_t here = p->matrices > 1 ? p->count / (p->local_rows * p->local_columns) : 1;
            for (int64_t m = p->first_matrix; counts && m < p->first_matrix + here; m++)
                add_root_mean(run->queue, (AddRootMean){ .total_1 = own_1, .squares_1 = square_of(run, p, m),
                                                         .count = count });
        }
    sums_join(run, family_sums(run), PARAM_FAMILIES);                                          /* <-> world */
    for (int i = 0; i < run->pieces; i++) {
        const OptimizerPiece *p = &run->piece[i];
        for (int64_t m = 0; m < p->matrices; m++)
            onebit_scale(run->queue, (OnebitScale){
                .numbers_3 = piece_numbers(p, NUMBERS, &(PieceMatrix){ .number = m }),
                .squares_1 = square_of(run, p, m), .total_1 = total_1,
                .count = (double)(p->rows * p->columns), .tensors = x->tensors });
    }
}

/* ---- the compressed all-reduce ---- */

/* Each worker's own momentum, with what it has not sent, in the place of that; and its sum of squares. */
static void momenta_begin(OptimizerRun *run, const CompressedPieces *x)
{
    Tensor sum_1 = of_worker(run, run->compressed.own_W, x->family, comm_rank(x->workers), 1);
    for (int i = x->first; i < x->end; i++) {
        const OptimizerPiece *p = &run->piece[i];
        for (PieceMatrix m = { 0 }; piece_next(p, &m); )
            onebit_momentum(run->queue, (OnebitMomentum){ .e_N = piece_part(p->state[ERROR], &m),
                .m_N = piece_part(p->state[MOMENTUM], &m), .g_N = piece_part(p->g, &m),
                .numbers_3 = piece_numbers(p, NUMBERS, &m), .beta1 = run->settings->beta1,
                .workers = (double)worker_count(x) });
        if (p->saves && x->counts)
            add_squares(run->queue, sum_1, p->state[ERROR]);
    }
}

/* Signs go to the workers that sum them, which take the mean; and its sum of squares. */
static void signs_sum(OptimizerRun *run, const CompressedPieces *x)
{
    Queue  *q = run->queue;
    Tensor  sum_1 = of_family(run, run->compressed.own_W, x->family);
    int64_t P = worker_count(x), bytes = x->at[1];
    size_t  mark = arena_mark(run->scratch);
    double  count = run->compressed.elements[x->family];
    Tensor  mine = tensor_new(run->scratch, "signs", U8, P, bytes);
    Tensor  sent = tensor_new(run->scratch, "signs", U8, P, bytes);
    sign_pack(q, (SignPack){ .bits_B = tensor_view(mine, P * bytes), .x_N = x->error_N, .count = count,
        .squares_1 = of_worker(run, run->compressed.sums_W, x->family, comm_rank(x->workers), 1) });
    comm_all_to_all(x->workers, q, tensor_view(sent, P * bytes), x->at, tensor_view(mine, P * bytes),
                    x->at);                                                    /* <-> workers: all-to-all */
    if (tensor_present(x->summed_N))
        sign_mean(q, (SignMean){ .y_N = x->summed_N, .bits_PB = sent, .count = count,
            .squares_P = of_worker(run, run->compressed.sums_W, x->family, 0, P) });
    arena_reset(run->scratch, mark);
    for (int i = x->first; i < x->end; i++) {
        const OptimizerPiece *p = &run->piece[i];
        if (p->saves && x->counts && tensor_present(p->state[SUMMED]))
            add_squares(q, sum_1, p->state[SUMMED]);
    }
}

/* The momentum of all workers, and the direction in the place of the gradient. bits: of all elements of the
 * bucket; absent: the momentum is that of the only worker. */
static void momenta_end(OptimizerRun *run, const CompressedPieces *x, Tensor bits_B, Tensor squares_1)
{
    const OptimizerSettings *s = run->settings;
    int64_t before = 0;
    for (int i = x->first; i < x->end; i++) {
        const OptimizerPiece *p = &run->piece[i];
        for (PieceMatrix m = { 0 }; piece_next(p, &m); )
            onebit_compressed(run->queue, (OnebitCompressed){ .g_N = piece_part(p->g, &m),
                .m_N = piece_part(p->state[MOMENTUM], &m), .fresh_N = piece_part(p->state[FRESH], &m),
                .v_N = piece_part(p->state[SQUARE], &m), .w_N = piece_part(p->w, &m),
                .e_N = piece_part(p->state[ERROR], &m), .bits_B = bits_B, .squares_1 = squares_1,
                .numbers_3 = piece_numbers(p, NUMBERS, &m), .first = before + m.at,
                .count = run->compressed.elements[x->family], .beta1 = s->beta1, .beta2 = s->beta2,
                .epsilon = s->epsilon, .decay = p->decayed });
        before += p->count;
    }
}

/* All workers get the signs of the sums. */
static void signs_gather(OptimizerRun *run, const CompressedPieces *x)
{
    Queue  *q = run->queue;
    int64_t P = worker_count(x), bytes = x->at[1];
    size_t  mark = arena_mark(run->scratch);
    Tensor  own = tensor_new(run->scratch, "signs", U8, bytes);
    Tensor  all = tensor_new(run->scratch, "signs", U8, P * bytes);
    Tensor  squares_1 = of_family(run, run->compressed.sums_W, x->family);
    if (tensor_present(x->summed_N))
        sign_pack(q, (SignPack){ .bits_B = own, .x_N = x->summed_N, .squares_1 = squares_1,
                                 .count = run->compressed.elements[x->family] });
    else fill_zero(q, (FillZero){ .y = own });
    comm_all_gather(x->workers, q, all, own);                                  /* <-> workers: all-gather */
    momenta_end(run, x, all, squares_1);
    arena_reset(run->scratch, mark);
}

/* ---- the update ---- */

/* sums = { d d, u u } of the directions without decay and with it, and the largest ratio of second moments */
static void measure_lengths(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                            Tensor out_2)
{
    int64_t matrix = p->first_matrix + (p->first + first) / (p->local_rows * p->local_columns);
    onebit_lengths(run->queue, (OnebitLengths){ .out_1 = tensor_flat(out_2, 0, 1),
        .most_1 = most_of(run, p, matrix), .m_N = tensor_flat(p->state[MOMENTUM], first, count),
        .v_N = tensor_flat(p->state[SQUARE], first, count),
        .fresh_N = tensor_flat(p->state[FRESH], first, count), .epsilon = run->settings->epsilon });
    add_squares(run->queue, tensor_flat(out_2, 1, 1), tensor_flat(p->g, first, count));
}

/* Weights, and then the numbers of all matrices, also of those of which there are no elements here: they are
 * saved as a whole. */
static void update_piece(const OptimizerRun *run, const OptimizerPiece *p, bool compressed)
{
    OnebitBounds bounds = run->settings->onebit;
    bounds.low = run->settings->least_ratio, bounds.high = run->settings->most_ratio;
    for (PieceMatrix m = { 0 }; piece_next(p, &m); )
        onebit_update(run->queue, (OnebitUpdate){ .w_N = piece_part(p->w, &m),
            .param_N = piece_part(p->param, &m), .u_N = piece_part(p->g, &m),
            .numbers_3 = piece_numbers(p, NUMBERS, &m),
            .squares_2 = piece_sums(run->sums_N, p, 0, m.number),
            .most_1 = compressed ? most_of(run, p, m.number) : tensor_none(), .bounds = bounds,
            .decay = p->decayed, .decoupled = p->decoupled });
    for (int64_t i = 0; i < p->matrices; i++)
        onebit_numbers(run->queue, (OnebitNumbers){
            .numbers_3 = piece_numbers(p, NUMBERS, &(PieceMatrix){ .number = i }),
            .squares_2 = piece_sums(run->sums_N, p, 0, i),
            .most_1 = compressed ? most_of(run, p, i) : tensor_none(),
            .bounds = bounds, .decay = p->decayed });
}

static void update_pieces(const OptimizerRun *run, bool compressed)
{
    for (int i = 0; i < run->pieces; i++) update_piece(run, &run->piece[i], compressed);
}

static void compressed_update(OptimizerRun *run)
{
    CompressedAllReduce *x = &run->compressed;
    if (run->queue->host_state->updates == run->settings->freeze) scales_set(run);       /* <-> stage world */
    fill_zero(run->queue, (FillZero){ .y = x->own_W });
    fill_zero(run->queue, (FillZero){ .y = x->most_M });
    for (int b = 0; b < x->count; b++) momenta_begin(run, &x->of[b]);
    sums_join(run, 0, family_sums(run));                                                       /* <-> world */
    for (int b = 0; b < x->count; b++)
        if (worker_count(&x->of[b]) > 1) signs_sum(run, &x->of[b]);                          /* <-> workers */
    sums_join(run, family_sums(run), PARAM_FAMILIES);                                          /* <-> world */
    for (int b = 0; b < x->count; b++)
        if (worker_count(&x->of[b]) > 1) signs_gather(run, &x->of[b]);                       /* <-> workers */
        else momenta_end(run, &x->of[b], tensor_none(), tensor_none());
    optimizer_measure(run, 0, measure_lengths);                                                /* <-> stage */
    comm_all_reduce_max(run->stage, run->queue, x->most_M, run->scratch);     /* <-> stage: all-reduce */
    update_pieces(run, true);
}

/* ---- before the freeze ---- */

static void begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    onebit_direction(q, (OnebitDirection){ .g_N = p->g, .m_N = p->state[MOMENTUM], .v_N = p->state[SQUARE],
        .fresh_N = p->state[FRESH], .w_N = p->w, .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon,
        .decay = p->decayed });
}

static int64_t sums(const Param *param) { (void)param; return 2; }

/* sums = { w w, u u } */
static void measure(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                    Tensor out_2)
{
    add_squares(run->queue, tensor_flat(out_2, 0, 1), tensor_flat(p->w, first, count));
    add_squares(run->queue, tensor_flat(out_2, 1, 1), tensor_flat(p->g, first, count));
}

static void finish(const OptimizerRun *run, const UpdateRule *rule)
{
    (void)rule;                              /* that of all pieces */
    update_pieces(run, false);
}

/* The factor of the mean ratio begins as 1, as does the scale. */
static void start(Queue *q, const OptimizerPiece *p)
{
    for (int64_t m = 0; m < p->matrices; m++) {
        Tensor numbers_3 = piece_numbers(p, NUMBERS, &(PieceMatrix){ .number = m });
        init_value(q, (InitValue){ .y_N = tensor_flat(numbers_3, ONEBIT_FACTOR, 2), .value = 1 });
    }
}

const UpdateRule onebit_rule = { .states = STATES,
    .state = { [MOMENTUM] = { "exp_avg", STATE_EXACT, PER_ELEMENT },
               [SQUARE]   = { "exp_avg_sq", STATE_EXACT, PER_ELEMENT },
               [FRESH]    = { "exp_avg_sq_fresh", STATE_EXACT, PER_ELEMENT },
               [NUMBERS]  = { "trust_ratio", STATE_EXACT, PER_TENSOR },
               [ERROR]    = { "worker_error", STATE_EXACT, PER_WORKER },
               [SUMMED]   = { "server_error", STATE_EXACT, PER_SUMMED } },
    .start = start, .begin = begin, .phases = 1, .phase = { { sums, measure, finish } },
    .compresses = compresses, .compressed = compressed_update };
