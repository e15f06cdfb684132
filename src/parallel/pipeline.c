/* The interpreter of schedules. Sends and receives are only posted here; each has its own WAIT row, so that
 * the schedule decides which computations they overlap with. */
#include "parallel/pipeline.h"
#include <stdlib.h>

void pipeline_open(Pipeline *p, PipelineCompute compute, const Channels *channels,
                   const ScheduleShape *shape, int stage, Arena *activations, int rows)
{
    *p = (Pipeline){ .compute = compute, .channels = channels, .rows = rows,
        .pending = calloc((size_t)rows, sizeof *p->pending) };
    CHECK(p->pending, "no memory for a schedule of %d rows", rows);
    if (!shape) return;
    size_t buffers = (size_t)shape->chunks * (size_t)schedule_buffers(shape);
    p->buffers  = schedule_buffers(shape);
    p->grad_in  = calloc(buffers, sizeof *p->grad_in);
    p->grad_out = calloc(buffers, sizeof *p->grad_out);
    CHECK(p->grad_in && p->grad_out, "no memory for %zu gradient buffers", buffers);
    for (int i = 0; i < shape->chunks * p->buffers; i++) {
        int c = i / p->buffers, next = schedule_after(shape, stage, c);
        /* of a chunk on the same stage the output's gradient is the next chunk's grad_out */
        if (next >= 0 && next != stage)
            p->grad_in[i] = compute.gradient_new(compute.context, c, true, activations);
        if (schedule_before(shape, stage, c) >= 0)
            p->grad_out[i] = compute.gradient_new(compute.context, c, false, activations);
    }
}

void pipeline_close(Pipeline *p)
{
    free(p->grad_in);
    free(p->grad_out);
    free(p->pending);
}

/* ---- units of a model ---- */

static PipelineSlot units_slot(void *executor, int slot)
{
    ActivationSlot *s = stage_executor_slot(executor, slot);
    return (PipelineSlot){ s->in, s->out, &s->batch };
}

static void units_start(void *context, bool training)
{
    StageExecutor *executor = context;
    executor->ctx.backward_follows = training;
}

static bool computes(const ScheduleRow *row) { return row->verb == FORWARD || row->verb == BACKWARD_INPUT; }

/* What the executor may know of later rows: the unit that reads weights next, up to where they change, and
 * whether the row's gradients are the chunk's last. */
static void units_look_ahead(void *context, const Schedule *s, int index)
{
    StageExecutor *executor = context;
    const ScheduleRow *row = &s->row[index];
    int next = index + 1, again = index + 1;
    if (!computes(row) && row->verb != BACKWARD_WEIGHT) return;
    while (next < s->rows && !computes(&s->row[next]) && s->row[next].verb != STEP) next++;
    while (again < s->rows && (s->row[again].verb != row->verb || s->row[again].chunk != row->chunk)) again++;
    bool found = next < s->rows && s->row[next].verb != STEP;
    executor->next_unit = -1;
    if (found)
        executor->next_unit = stage_executor_first_read(executor, s->row[next].chunk,
                                                        s->row[next].verb == FORWARD);
    executor->final = row->verb != FORWARD && again == s->rows;
}

static void units_begin(void *executor, int chunk, int slot)
{
    stage_executor_begin(executor, chunk, slot);
}

static void units_forward(void *executor, int chunk, int slot)
{
    stage_executor_forward(executor, chunk, slot);
}

static void units_backward_input(void *executor, int chunk, int slot, Hidden dx, Hidden dy)
{
    stage_executor_backward_input(executor, chunk, slot, dx, dy);
}
static void units_backward_weight(void *executor, int chunk, int slot)
{
    stage_executor_backward_weight(executor, chunk, slot);
}

static Hidden units_gradient_new(void *context, int chunk, bool of_output, Arena *arena)
{
    StageExecutor *executor = context;
    (void)chunk;
    return hidden_new(&executor->ctx, arena, of_output ? "gradient in" : "gradient out");
}

PipelineCompute pipeline_compute_units(StageExecutor *executor)
{
    return (PipelineCompute){ .context = executor, .queue = executor->ctx.queue, .start = units_start,
        .look_ahead = units_look_ahead, .slot = units_slot,
        .begin = units_begin, .forward = units_forward, .backward_input = units_backward_input,
        .backward_weight = units_backward_weight, .gradient_new = units_gradient_new };
}

/* ---- rows ---- */

static Hidden *buffer_of(const Pipeline *p, Hidden *buffers, int chunk, int buffer)
{
    return &buffers[chunk * p->buffers + buffer];
}

/* The output of the chunk before that of row `index` where both are on this rank and activations are copied,
 * not sent. The FORWARD row of that chunk says in which slot the output is. */
static Hidden local_output(const Pipeline *p, const Schedule *s, int index)
{
    int chunk = s->row[index].chunk - 1, micro = s->row[index].micro, i = index;
    while (i >= 0 && (s->row[i].verb != FORWARD || s->row[i].chunk != chunk || s->row[i].micro != micro)) i--;
    CHECK(i >= 0, "no forward of chunk %d, micro-batch %d in the schedule", chunk, micro);
    return p->compute.slot(p->compute.context, s->row[i].slot).out;
}

static void forward(Pipeline *p, const Schedule *s, int index, PipelineCalls calls)
{
    const ScheduleRow *row = &s->row[index];
    const PipelineCompute *compute = &p->compute;
    int before = schedule_before(&s->shape, s->stage, row->chunk);
    if (before < 0 || before == s->stage) compute->begin(compute->context, row->chunk, row->slot);
    PipelineSlot slot = compute->slot(compute->context, row->slot);
    if (before == s->stage) {
        Hidden from = local_output(p, s, index);
        for (int i = 0; i < from.n; i++)
            copy_strided(compute->queue, (CopyStrided){ .y = slot.in.t[i], .x = from.t[i] });
    }
    calls.fill(calls.context, slot.batch, row->micro);
    compute->forward(compute->context, row->chunk, row->slot);
}

/* Where the next chunk is on this rank the gradient of the output is what that chunk wrote for its input: no
 * message, and no copy either. */
static void backward_input(Pipeline *p, const Schedule *s, const ScheduleRow *row)
{
    bool local = schedule_after(&s->shape, s->stage, row->chunk) == s->stage;
    Hidden dy = *(local ? buffer_of(p, p->grad_out, row->chunk + 1, row->buffer)
                        : buffer_of(p, p->grad_in, row->chunk, row->buffer));
    p->compute.backward_input(p->compute.context, row->chunk, row->slot,
                              *buffer_of(p, p->grad_out, row->chunk, row->buffer), dy);
}

/* All tensors of a hidden state go over the row's channel, in their order. */
static void post(Pipeline *p, const Schedule *s, int index)
{
    const ScheduleRow *row = &s->row[index];
    Comm *channel = channels_find(p->channels, row);
    int   peer = 1 - comm_rank(channel);
    Hidden x = { .n = 0 };
    switch (row->verb) {
    case RECV:
        p->compute.begin(p->compute.context, row->chunk, row->slot);
        x = p->compute.slot(p->compute.context, row->slot).in;
        break;
    case SEND:      x = p->compute.slot(p->compute.context, row->slot).out;    break;
    case RECV_GRAD: x = *buffer_of(p, p->grad_in,  row->chunk, row->buffer);   break;
    default:        x = *buffer_of(p, p->grad_out, row->chunk, row->buffer);   break;
    }
    Pending *pending = p->pending[index];
    bool send = row->verb == SEND || row->verb == SEND_GRAD;
    for (int i = 0; i < HIDDEN_MAX; i++) pending[i] = (Pending){ -1 };
    for (int i = 0; i < x.n; i++) {
        if (send) pending[i] = comm_send_begin(channel, p->compute.queue, x.t[i], peer);   /* <-> pp: send */
        else pending[i] = comm_recv_begin(channel, p->compute.queue, x.t[i], peer);     /* <-> pp: receive */
    }
}

/* Row number `index`. A WAIT row names in `posted` the row whose message it waits for. */
static void run_row(Pipeline *p, const Schedule *s, int index, PipelineCalls calls)
{
    const ScheduleRow *row = &s->row[index];
    switch (row->verb) {
    case RECV:
    case SEND:
    case RECV_GRAD:
    case SEND_GRAD:       post(p, s, index);                                                     break;
    case WAIT:
        for (int i = 0; i < HIDDEN_MAX; i++)
            comm_wait(channels_find(p->channels, &s->row[row->posted]), p->pending[row->posted][i]);
        break;
    case FORWARD:         forward(p, s, index, calls);                                           break;
    case BACKWARD_INPUT:  backward_input(p, s, row);                                             break;
    case BACKWARD_WEIGHT: p->compute.backward_weight(p->compute.context, row->chunk, row->slot); break;
    case REDUCE:          calls.reduce(calls.context, row->chunk);                               break;
    case STEP:            calls.step(calls.context);                                             break;
    }
}

void pipeline_run(Pipeline *p, const Schedule *schedule, PipelineCalls calls)
{
    CHECK(schedule->rows <= p->rows, "a schedule of %d rows is run by a pipeline opened for %d",
        schedule->rows, p->rows);
    p->compute.start(p->compute.context, schedule->shape.kind != SCHEDULE_FORWARD);
    for (int i = 0; i < schedule->rows; i++) {
        if (p->compute.look_ahead) p->compute.look_ahead(p->compute.context, schedule, i);
        run_row(p, schedule, i, calls);
    }
}
