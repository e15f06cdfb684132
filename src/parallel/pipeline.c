/* The interpreter of schedules. Sends and receives are only posted here; each has its own WAIT row, so that
 * the schedule decides which computations they overlap with. */
#include "parallel/pipeline.h"
#include <stdlib.h>

void pipeline_open(Pipeline *p, StageExecutor *executor, Comm *pp, Arena *activations, int rows)
{
    *p = (Pipeline){ .executor = executor, .pp = pp, .rows = rows,
        .pending = calloc((size_t)rows, sizeof *p->pending) };
    CHECK(p->pending, "no memory for a schedule of %d rows", rows);
    for (int c = 0; executor->buckets->training && c < executor->stage->chunks; c++)
        for (int i = 0; i < 2; i++) {
            if (!stage_is_last (executor->stage, c))
                p->grad_in[c][i]  = hidden_new(&executor->ctx, activations, "gradient in");
            if (!stage_is_first(executor->stage, c))
                p->grad_out[c][i] = hidden_new(&executor->ctx, activations, "gradient out");
        }
}

void pipeline_close(Pipeline *p) { free(p->pending); }

/* The output of (chunk, micro) where all chunks are on one rank and activations are copied, not sent. The
 * FORWARD row of the previous chunk says in which slot the output is. */
static Hidden local_output(const Pipeline *p, const Schedule *s, int chunk, int micro)
{
    int i = 0;
    while (i < s->rows && (s->row[i].verb != FORWARD || s->row[i].chunk != chunk || s->row[i].micro != micro))
        i++;
    CHECK(i < s->rows, "no forward of chunk %d, micro-batch %d in the schedule", chunk, micro);
    return stage_executor_slot(p->executor, s->row[i].slot)->out;
}

static void forward(Pipeline *p, const Schedule *s, const ScheduleRow *row, PipelineCalls calls)
{
    StageExecutor *executor = p->executor;
    ActivationSlot *slot = stage_executor_slot(executor, row->slot);
    if (s->stages == 1 || stage_is_first(executor->stage, row->chunk))
        stage_executor_begin(executor, row->chunk, row->slot);
    if (s->stages == 1 && row->chunk > 0)
        copy_strided(executor->ctx.queue, (CopyStrided){ .y = slot->in.t[0],
            .x = local_output(p, s, row->chunk - 1, row->micro).t[0] });
    calls.fill(calls.context, &slot->batch, row->micro);
    stage_executor_forward(executor, row->chunk, row->slot);
}

/* With one stage the gradient of a chunk's output is what the next chunk wrote for its input: no message, and
 * no copy either. */
static void backward_input(Pipeline *p, const Schedule *s, const ScheduleRow *row)
{
    int c = row->chunk;
    Hidden dy = p->grad_in[c][row->buffer];
    if (s->stages == 1 && c + 1 < s->chunks) dy = p->grad_out[c + 1][row->buffer];
    stage_executor_backward_input(p->executor, c, row->slot, p->grad_out[c][row->buffer], dy);
}

/* Row number `index`. A WAIT row names in `posted` the row whose message it waits for. */
static void run_row(Pipeline *p, const Schedule *s, int index, PipelineCalls calls)
{
    const ScheduleRow *row = &s->row[index];
    Queue *q = p->executor->ctx.queue;
    ActivationSlot *slot = row->slot >= 0 ? stage_executor_slot(p->executor, row->slot) : NULL;
    Tensor grad;
    switch (row->verb) {
    case RECV:
        stage_executor_begin(p->executor, row->chunk, row->slot);
        p->pending[index] = comm_recv_begin(p->pp, q, slot->in.t[0], row->peer);         /* <-> pp: receive */
        break;
    case SEND:
        p->pending[index] = comm_send_begin(p->pp, q, slot->out.t[0], row->peer);          /* <-> pp: send */
        break;
    case RECV_GRAD:
        grad = p->grad_in[row->chunk][row->buffer].t[0];
        p->pending[index] = comm_recv_begin(p->pp, q, grad, row->peer);                  /* <-> pp: receive */
        break;
    case SEND_GRAD:
        grad = p->grad_out[row->chunk][row->buffer].t[0];
        p->pending[index] = comm_send_begin(p->pp, q, grad, row->peer);                    /* <-> pp: send */
        break;
    case WAIT:            comm_wait(p->pp, p->pending[row->posted]);                             break;
    case FORWARD:         forward(p, s, row, calls);                                             break;
    case BACKWARD_INPUT:  backward_input(p, s, row);                                             break;
    case BACKWARD_WEIGHT: stage_executor_backward_weight(p->executor, row->chunk, row->slot);    break;
    case REDUCE:          calls.reduce(calls.context, row->chunk);                               break;
    case STEP:            calls.step(calls.context);                                             break;
    }
}

static bool computes(const ScheduleRow *row) { return row->verb == FORWARD || row->verb == BACKWARD_INPUT; }

/* What the executor may know of later rows: the unit that reads weights next, up to where they change, and
 * whether the row's gradients are the chunk's last. */
static void look_ahead(StageExecutor *executor, const Schedule *s, int index)
{
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

void pipeline_run(Pipeline *p, const Schedule *schedule, PipelineCalls calls)
{
    CHECK(schedule->rows <= p->rows, "a schedule of %d rows is run by a pipeline opened for %d",
        schedule->rows, p->rows);
    p->executor->ctx.backward_follows = schedule->kind != SCHEDULE_FORWARD;
    for (int i = 0; i < schedule->rows; i++) {
        look_ahead(p->executor, schedule, i);
        run_row(p, schedule, i, calls);
    }
}
