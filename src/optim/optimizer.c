/* The table of optimizers, the step of all pieces of a rank, and elementwise rules: Adam, SGD, Lion, ADOPT.
 * Gradient clipping is the operation clip_and_skip of tensor/ops.def. */
#include "optim/optimizer.h"
#include <string.h>
#include "base/array.h"

/* States are the first and second moment, exp_avg and exp_avg_sq as in PyTorch. */
static void adam_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    adamw(q, (Adamw){ .w_N = p->w, .m_N = p->state[0], .v_N = p->state[1], .g_N = p->g, .param_N = p->param,
                      .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed,
                      .coupled = s->coupled, .uncorrected = s->uncorrected, .decoupled = p->decoupled,
                      .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static void sgd_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    sgd(q, (Sgd){ .w_N = p->w, .m_N = p->state[0], .g_N = p->g, .param_N = p->param, .momentum = s->momentum,
                  .nesterov = s->nesterov, .decay = p->decayed, .decoupled = p->decoupled,
                  .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static void lion_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    lion(q, (Lion){ .w_N = p->w, .m_N = p->state[0], .g_N = p->g, .param_N = p->param,
                    .beta1 = s->lion_beta1, .beta2 = s->lion_beta2, .decay = p->decayed,
                    .decoupled = p->decoupled,
                    .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static void adopt_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    adopt(q, (Adopt){ .w_N = p->w, .m_N = p->state[0], .v_N = p->state[1], .g_N = p->g, .param_N = p->param,
                      .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed,
                      .coupled = s->coupled, .decoupled = p->decoupled,
                      .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

const UpdateRule adam_rule = { .states = 2,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } },
    .begin = adam_begin, .elementwise = true };
static const UpdateRule sgd_rule = { .states = 1,
    .state = { { "momentum_buffer", STATE_MOMENT, PER_ELEMENT } }, .begin = sgd_begin,
    .elementwise = true };
static const UpdateRule lion_rule = { .states = 1, .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT } },
    .begin = lion_begin, .elementwise = true };

static const UpdateRule adopt_rule = { .states = 2,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } },
    .begin = adopt_begin, .elementwise = true };

static const Optimizer optimizers[] = {
    { "adam", &adam_rule, &adam_rule, &adam_rule },                     /* Megatron-LM's name for AdamW */
    { "sgd",  &sgd_rule,  &sgd_rule,  &sgd_rule },
    { "lion", &lion_rule, &lion_rule, &lion_rule },
    { "adopt", &adopt_rule, &adopt_rule, &adopt_rule },
    { "adamwschedulefree", &adamw_free_rule, &adamw_free_rule, &adamw_free_rule },
    { "sgdschedulefree", &sgd_free_rule, &sgd_free_rule, &sgd_free_rule },
    { "sophiag", &sophia_rule, &sophia_rule, &sophia_rule },
    { "adafactor", &adafactor_matrix_rule, &adafactor_matrix_rule, &adafactor_vector_rule },
    { "adam-mini", &adam_mini_rule, &adam_mini_rule, &adam_mini_rule },
    { "lamb", &lamb_rule, &lamb_rule, &lamb_rule },
    { "ipex.lamb", &lamb_rule, &lamb_rule, &lamb_rule },                /* without bounds of its ratio */
    { "ds.onebitlamb", &onebit_rule, &onebit_rule, &onebit_rule },
    { "muon", &muon_rule, &adam_rule, &adam_rule },
    { "adam8bit", &adam8bit_rule, &adam_rule, &adam_rule },
    { "galoreadamw", &galore_rule, &galore_others_rule, &galore_others_rule },
    { "galoreadamw8bit", &galore8bit_rule, &adam_rule, &adam_rule },
    { "shampoo", &shampoo_rule, &adam_rule, &adam_rule },
    { "soap", &soap_rule, &adam_rule, &adam_rule },
};

const Optimizer *optimizer_named(const char *name)
{
    for (size_t i = 0; i < COUNT(optimizers); i++)
        if (!strcmp(optimizers[i].name, name)) return &optimizers[i];
    return NULL;
}

const UpdateRule *optimizer_rule(const Optimizer *optimizer, const Param *param)
{
    if (param_is_layer_matrix(param)) return optimizer->matrices;
    return param->dims > 1 ? optimizer->tables : optimizer->vectors;
}

static int64_t granule_of(const void *optimizer, const Param *param)
{
    const UpdateRule *rule = optimizer_rule(optimizer, param);
    return rule->granule ? rule->granule(param) : 1;
}

ParamGranule optimizer_granule(const Optimizer *o)
{
    bool elements = !o->matrices->granule && !o->tables->granule && !o->vectors->granule;
    return elements ? (ParamGranule){ NULL, NULL } : (ParamGranule){ granule_of, o };
}

static bool same_states(const UpdateRule *a, const UpdateRule *b)
{
    return (a->states_as ? a->states_as : a) == (b->states_as ? b->states_as : b);
}

bool optimizers_share_states(const char *a, const char *b)
{
    const Optimizer *x = optimizer_named(a), *y = optimizer_named(b);
    return x && y && same_states(x->matrices, y->matrices) && same_states(x->tables, y->tables) &&
           same_states(x->vectors, y->vectors);
}

int optimizer_state_of(const Optimizer *o, StateShape shape)
{
    for (int s = 0; s < o->matrices->states; s++)
        if (o->matrices->state[s].shape == shape) return s;
    return -1;
}

bool optimizer_compresses(const Optimizer *o) { return o->matrices->compressed != NULL; }

bool optimizer_compresses_now(const Optimizer *o, const OptimizerSettings *s, int64_t updates)
{
    return o->matrices->compressed && o->matrices->compresses(s, updates);
}

bool optimizer_estimates(const Optimizer *o) { return o->matrices->estimate != NULL; }
bool optimizer_averages(const Optimizer *o) { return o->matrices->parameters != NULL; }

int optimizer_phases(const Optimizer *o)
{
    int most = o->matrices->phases;
    if (o->tables->phases > most) most = o->tables->phases;
    return o->vectors->phases > most ? o->vectors->phases : most;
}

int64_t optimizer_sums(const Optimizer *o, const Param *param, int phase)
{
    const UpdateRule *rule = optimizer_rule(o, param);
    int64_t matrices = param->dims == PARAM_DIMS ? param->global[0] : 1;
    return phase < rule->phases && rule->phase[phase].sums ? matrices * rule->phase[phase].sums(param) : 0;
}

bool piece_next(const OptimizerPiece *p, PieceMatrix *m)
{
    int64_t size = p->local_rows * p->local_columns, e = p->first + m->at + m->count;
    if (m->at + m->count >= p->count) return false;
    m->at    = e - p->first;
    m->first = e % size;
    m->count = size - m->first;
    if (m->count > p->count - m->at) m->count = p->count - m->at;
    m->number = p->first_matrix + e / size;
    return true;
}

Tensor piece_part(Tensor x_N, const PieceMatrix *m)
{
    return tensor_present(x_N) ? tensor_flat(x_N, m->at, m->count) : x_N;
}

ElementPlace piece_place(const OptimizerPiece *p, const PieceMatrix *m)
{
    ElementPlace place = p->place;
    place.first += m->at;
    return place;
}

Tensor piece_numbers(const OptimizerPiece *p, int state, const PieceMatrix *m)
{
    int64_t each = p->state[state].dim[0] / p->matrices;
    return tensor_flat(p->state[state], m->number * each, each);
}

Tensor piece_sums(Tensor sums_N, const OptimizerPiece *p, int phase, int64_t matrix)
{
    return tensor_flat(sums_N, p->sums_at[phase] + matrix * p->sums[phase], p->sums[phase]);
}

/* What this rank counts of the piece, one matrix at a time. */
static void measure_counted(OptimizerRun *run, const OptimizerPiece *p, int phase, OptimizerMeasure *measure)
{
    int64_t matrix = p->local_rows * p->local_columns, end = p->counted_first + p->counted;
    for (int64_t e = p->counted_first, next; e < end; e = next) {
        next = (e / matrix + 1) * matrix;
        if (next > end) next = end;
        (measure ? measure : p->rule->phase[phase].measure)(run, p, e - p->first, next - e,
            piece_sums(run->own_sums_N, p, phase, p->first_matrix + e / matrix));
    }
}

/* One message for the sums of all tensors. measure NULL: each rule's own. */
void optimizer_measure(OptimizerRun *run, int phase, OptimizerMeasure *measure)
{
    Queue *q = run->queue;
    Tensor own_N = tensor_flat(run->own_sums_N, 0, run->sums[phase]);
    Tensor all_N = tensor_flat(run->sums_N, 0, run->sums[phase]);
    fill_zero(q, (FillZero){ .y = own_N });
    for (int i = 0; i < run->pieces; i++)
        if (run->piece[i].sums[phase] > 0) measure_counted(run, &run->piece[i], phase, measure);
    round_sums(q, (RoundSums){ .y_N = all_N, .x_N = own_N });
    comm_all_reduce(run->stage, q, all_N, run->scratch);                           /* <-> stage: all-reduce */
}

static void finish(OptimizerRun *run, const UpdateRule *rule, int phase)
{
    if (phase < rule->phases && rule->phase[phase].finish)
        rule->phase[phase].finish(run, rule);                                       /* <-> cut */
}

void optimizer_tensors(OptimizerRun *run)
{
    const Optimizer *o = run->optimizer;
    if (!tensor_present(run->sums_N)) return;
    if (optimizer_compresses_now(o, run->settings, run->queue->host_state->updates)) {
        o->matrices->compressed(run);                                         /* <-> world workers stage */
        return;
    }
    for (int i = 0; i < run->pieces; i++)
        if (run->piece[i].rule->phases > 0)
            run->piece[i].rule->begin(run->queue, run->settings, &run->piece[i]);
    for (int phase = 0; phase < optimizer_phases(o); phase++) {
        optimizer_measure(run, phase, NULL);                                        /* <-> stage */
        finish(run, o->matrices, phase);                                            /* <-> cut */
        if (o->tables != o->matrices) finish(run, o->tables, phase);                /* <-> cut */
        if (o->vectors != o->matrices && o->vectors != o->tables)
            finish(run, o->vectors, phase);                                         /* <-> cut */
    }
}

static bool behind(Tensor x, Tensor next)
{
    bool here = tensor_present(x);
    return here == tensor_present(next) && (!here || (char *)x.data + tensor_bytes(x) == next.data);
}

/* Whether the elements of b come right behind those of a and are updated alike. */
static bool joins(const OptimizerRun *run, const OptimizerPiece *a, const OptimizerPiece *b)
{
    bool joins = a->rule->elementwise && !run->settings->stochastic && a->w.data && b->rule == a->rule &&
                 b->decayed == a->decayed && b->decoupled == a->decoupled;
    for (int s = 0; joins && s < a->rule->states; s++) joins = behind(a->state[s], b->state[s]);
    return joins && behind(a->w, b->w) && behind(a->g, b->g) && behind(a->param, b->param);
}

static Tensor longer(Tensor x, int64_t more)
{
    int64_t count = x.dim[0] + more;
    return tensor_present(x) ? tensor_at(x.data, x.dtype, &count, 1) : x;
}

/* Neighbours are one update, since a small one costs a device as much as a launch. */
void optimizer_elements(OptimizerRun *run, int first, int end)
{
    for (int i = first, next; i < end; i = next) {
        OptimizerPiece one = run->piece[i];
        const UpdateRule *rule = one.rule;
        next = i + 1;
        if (rule->phases > 0) continue;
        for (; !rule->update && next < end && joins(run, &one, &run->piece[next]); next++) {
            int64_t more = run->piece[next].count;
            one.w = longer(one.w, more), one.g = longer(one.g, more), one.param = longer(one.param, more);
            for (int s = 0; s < rule->states; s++) one.state[s] = longer(one.state[s], more);
            one.count += more;
        }
        if (rule->update) rule->update(run, &run->piece[i]);                        /* <-> cut */
        else rule->begin(run->queue, run->settings, &one);
    }
}
