/* A pipeline whose stages pass two tensors of different sizes: a small encoder-decoder. Its first half of virtual stages
 * are the encoder's, which pass the decoder's input on; those of the decoder read the encoder's output and pass it on,
 * so its gradient is the sum over all of them. Gradients have the bits of one rank's, which finite differences hold.
 *
 *     encoder   e' = e + w tanh(e)              decoder   d'[r, c] = d[r, c] (1 + w mean_r e[r, c mod E])
 *     loss      sum of d'^2 / 2 after the last stage
 *
 * R, C rows and columns of the decoder's states d   S, E of the encoder's states e */
#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "parallel/pipeline.h"

enum { R = 3, C = 7, S = 5, E = 2, VIRTUALS = 4, MICROS = 6 };
typedef struct { double d[R][C], e[S][E]; } State;

static const double weight_of[VIRTUALS] = { 0.3, -0.2, 0.5, 0.7 };
static bool is_encoder(int v) { return v < VIRTUALS / 2; }

static State input_of(int k)
{
    State x;
    for (int i = 0; i < R * C; i++) x.d[i / C][i % C] = sin(1 + i + 10 * k);
    for (int i = 0; i < S * E; i++) x.e[i / E][i % E] = cos(2 + i + 7 * k);
    return x;
}

static double mean_of(const State *x, int c)
{
    double sum = 0;
    for (int s = 0; s < S; s++) sum += x->e[s][c % E];
    return sum / S;
}

static State forward(int v, double w, const State *x)
{
    State y = *x;
    if (is_encoder(v)) for (int i = 0; i < S * E; i++) y.e[i / E][i % E] += w * tanh(x->e[i / E][i % E]);
    else for (int i = 0; i < R * C; i++) y.d[i / C][i % C] *= 1 + w * mean_of(x, i % C);
    return y;
}

static State loss_gradient(const State *y)
{
    State dy = *y;
    memset(dy.e, 0, sizeof dy.e);
    return dy;
}

/* Returns dx, and dw */
static State backward(int v, double w, const State *x, const State *dy, double *dw)
{
    State dx = *dy;
    *dw = 0;
    for (int i = 0; is_encoder(v) && i < S * E; i++) {
        double t = tanh(x->e[i / E][i % E]), g = dy->e[i / E][i % E];
        dx.e[i / E][i % E] = g * (1 + w * (1 - t * t));
        *dw += g * t;
    }
    for (int i = 0; !is_encoder(v) && i < R * C; i++) {
        double mean = mean_of(x, i % C), g = dy->d[i / C][i % C], d = x->d[i / C][i % C];
        dx.d[i / C][i % C] = g * (1 + w * mean);
        for (int s = 0; s < S; s++) dx.e[s][i % C % E] += g * d * w / S;       /* added to the later stages' */
        *dw += g * d * mean;
    }
    return dx;
}

/* Loss of all micro-batches on one rank, and the gradients of the weights. */
static double whole(const double *w, double *dw)
{
    double loss = 0;
    memset(dw, 0, VIRTUALS * sizeof *dw);
    for (int k = 0; k < MICROS; k++) {
        State x[VIRTUALS + 1] = { input_of(k) };
        for (int v = 0; v < VIRTUALS; v++) x[v + 1] = forward(v, w[v], &x[v]);
        for (int i = 0; i < R * C; i++) loss += x[VIRTUALS].d[i / C][i % C] * x[VIRTUALS].d[i / C][i % C] / 2;
        State dy = loss_gradient(&x[VIRTUALS]);
        for (int v = VIRTUALS - 1; v >= 0; v--) {
            double one;
            dy = backward(v, w[v], &x[v], &dy, &one);
            dw[v] += one;
        }
    }
    return loss;
}

/* ---- in a pipeline ---- */

typedef struct {
    const ScheduleShape *shape;
    int     stage, micro;
    PipelineSlot slot[2 * MICROS];
    double  dw_of[2 * MICROS];                 /* of the slot's micro-batch, until backward_weight */
    double *dw;                                /* [VIRTUALS], of all ranks */
} Model;

static const HiddenShape both = { 2, { R, S }, { C, E } };

static State read_state(Hidden x)
{
    State y;
    memcpy(y.d, x.t[0].data, sizeof y.d);
    memcpy(y.e, x.t[1].data, sizeof y.e);
    return y;
}

static void write_state(Hidden y, const State *x)
{
    memcpy(y.t[0].data, x->d, sizeof x->d);
    memcpy(y.t[1].data, x->e, sizeof x->e);
}

static void model_start(void *context, bool training) { (void)context; (void)training; }
static PipelineSlot model_slot(void *context, int slot) { return ((Model *)context)->slot[slot]; }
static void model_begin(void *context, int chunk, int slot) { (void)context; (void)chunk; (void)slot; }

static void model_forward(void *context, int chunk, int slot)
{
    Model *m = context;
    int v = schedule_virtual(m->shape, m->stage, chunk);
    State first = input_of(m->micro), x = v == 0 ? first : read_state(m->slot[slot].in);
    State y = forward(v, weight_of[v], &x);
    if (v == 0) write_state(m->slot[slot].in, &first);
    write_state(m->slot[slot].out, &y);
}

static void model_backward_input(void *context, int chunk, int slot, Hidden dx, Hidden dy)
{
    Model *m = context;
    int v = schedule_virtual(m->shape, m->stage, chunk);
    State x = read_state(m->slot[slot].in), y = read_state(m->slot[slot].out);
    State g = v == VIRTUALS - 1 ? loss_gradient(&y) : read_state(dy);
    g = backward(v, weight_of[v], &x, &g, &m->dw_of[slot]);
    if (v > 0) write_state(dx, &g);
}

static void model_backward_weight(void *context, int chunk, int slot)
{
    Model *m = context;
    m->dw[schedule_virtual(m->shape, m->stage, chunk)] += m->dw_of[slot];
}

static Hidden model_gradient_new(void *context, int chunk, bool of_output, Arena *arena)
{
    (void)context; (void)chunk; (void)of_output;
    return hidden_make(arena, "gradient", F64, &both);
}

static void model_fill(void *context, Batch *batch, int micro) { (void)batch; ((Model *)context)->micro = micro; }
static void model_reduce(void *context, int chunk) { (void)context; (void)chunk; }
static void model_step(void *context) { (void)context; }

typedef struct { ScheduleShape shape; double dw[VIRTUALS]; } Run;

static Status run_rank(Transport *transport, void *context)
{
    Run *run = context;
    Model m = { .shape = &run->shape, .stage = transport->rank, .dw = run->dw };
    Mesh mesh;
    Comm *world;
    Queue queue;
    Arena arena;
    Channels channels;
    Schedule schedule;
    Pipeline pipeline;
    world = comm_world(transport);
    TRY(mesh_make(&mesh, transport->size, transport->rank, (MeshShape){ 1, 1, run->shape.stages, .order = MESH_TP_DP_PP }));
    TRY(queue_open(&queue, "ref", 1, NULL));
    TRY(arena_open(&arena, "activations", 1 << 20));
    TRY(schedule_make(&schedule, &run->shape, m.stage));
    channels_open(&channels, world, &mesh, &run->shape);
    CHECK(schedule.slots <= 2 * MICROS, "%d slots", schedule.slots);
    for (int i = 0; i < schedule.slots; i++) {
        m.slot[i].in  = hidden_make(&arena, "in", F64, &both);
        m.slot[i].out = hidden_make(&arena, "out", F64, &both);
    }
    PipelineCompute compute = { .context = &m, .queue = &queue, .start = model_start, .slot = model_slot,
        .begin = model_begin, .forward = model_forward, .backward_input = model_backward_input,
        .backward_weight = model_backward_weight, .gradient_new = model_gradient_new };
    pipeline_open(&pipeline, compute, &channels, &run->shape, m.stage, &arena, schedule.rows);
    pipeline_run(&pipeline, &schedule,
                 (PipelineCalls){ .context = &m, .fill = model_fill, .reduce = model_reduce, .step = model_step });
    int64_t sent = 0;
    for (int i = 0; i < channels.count; i++) sent += comm_sent(channels.channel[i].comm, SENT_SEND).bytes;
    CHECK(sent % (int64_t)((R * C + S * E) * sizeof(double)) == 0 && (sent > 0) == (run->shape.stages > 1),
          "%lld bytes sent are no whole messages of both tensors", (long long)sent);
    pipeline_close(&pipeline);
    channels_close(&channels);
    schedule_free(&schedule);
    arena_close(&arena);
    queue_close(&queue);
    comm_close(world);
    return OK;
}

static void test_schedules(void **state)
{
    (void)state;
    static const ScheduleShape shapes[] = {
        { SCHEDULE_1F1B, 4, 1, MICROS, .v_shaped = false },      { SCHEDULE_GPIPE, 4, 1, MICROS, .v_shaped = false },
        { SCHEDULE_ZB_H1, 4, 1, MICROS, .v_shaped = false },     { SCHEDULE_INTERLEAVED, 2, 2, MICROS, .group = 3 },
        { SCHEDULE_ZB_V, 2, 2, MICROS, .v_shaped = true },       { SCHEDULE_1F1B, 4, 1, MICROS, .extra = 1 },
        { SCHEDULE_INTERLEAVED, 1, 4, MICROS, .v_shaped = false },
    };
    double dw[VIRTUALS];
    whole(weight_of, dw);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Run run = { .shape = shapes[i] };
        if (transport_threads_run(shapes[i].stages, run_rank, &run) != OK) fail_msg("%s", fail_text());
        for (int v = 0; v < VIRTUALS; v++)
            if (run.dw[v] != dw[v])
                fail_msg("%s, virtual stage %d: gradient %.17g, on one rank %.17g", schedule_name(shapes[i].kind), v, run.dw[v], dw[v]);
    }
}

static void test_differences(void **state)
{
    (void)state;
    double dw[VIRTUALS], other[VIRTUALS], w[VIRTUALS], h = 1e-5;
    whole(weight_of, dw);
    for (int v = 0; v < VIRTUALS; v++) {
        memcpy(w, weight_of, sizeof w);
        w[v] += h;
        double above = whole(w, other);
        w[v] -= 2 * h;
        double slope = (above - whole(w, other)) / (2 * h);
        if (fabs(slope - dw[v]) > 1e-7 * (1 + fabs(slope))) fail_msg("virtual stage %d: gradient %g, slope %g", v, dw[v], slope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_schedules), cmocka_unit_test(test_differences) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
