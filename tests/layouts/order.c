/* Stands between the pipeline and what it calls: computations, batches, messages, sums and the update. */
#include "layouts/order.h"
#include <string.h>
#include "tensor/dtype.h"

enum { UNKNOWN = -2, STRANGE = -3 };                  /* not shown by anything; not what any row could be */

/* The watch of this rank, which is a thread. */
static _Thread_local OrderWatch *watching;

static void did(OrderWatch *w, ScheduleVerb verb, int chunk, int micro, int slot, int peer, int buffer, int posted)
{
    CHECK(w->count < ORDER_MOST, "a step of more than %d rows", ORDER_MOST);
    w->done[w->count++] = (ScheduleRow){ verb, chunk, micro, slot, peer, buffer, posted };
}

/* A message that came belongs to the micro-batch that is computed from it. */
static void settle(OrderWatch *w, ScheduleVerb verb, int chunk, int slot, int buffer, int micro)
{
    for (int i = 0; i < w->count; i++) {
        ScheduleRow *row = &w->done[i];
        bool its = row->chunk == chunk && row->slot == slot && row->buffer == buffer;
        if (its && row->verb == verb && row->micro == UNKNOWN) row->micro = micro;
    }
}

/* ---- computations ---- */

static PipelineSlot slot_of(const OrderWatch *w, int slot) { return w->compute.slot(w->compute.context, slot); }

static int slots(const OrderWatch *w)
{
    int n = w->trainer->train.executor.slots;
    return n < ORDER_SLOTS ? n : ORDER_SLOTS;
}

static const void *memory(Hidden x) { return x.n > 0 ? x.t[0].data : NULL; }

/* The number of the gradient buffer of a chunk that has this memory. */
static int buffer_of(const OrderWatch *w, const Hidden *buffers, int chunk, Hidden x)
{
    int each = w->trainer->train.pipeline.buffers;
    for (int i = 0; i < each; i++)
        if (memory(buffers[chunk * each + i]) == memory(x)) return i;
    return STRANGE;
}

static void begin(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    CHECK(slot < ORDER_SLOTS, "slot %d", slot);
    w->chunk[slot] = chunk;
    w->micro[slot] = UNKNOWN;
    w->compute.begin(w->compute.context, chunk, slot);
}

/* The micro-batch by its first sample: number m of data-parallel rank d has samples (m dp + d) b ... */
static void fill(void *context, Batch *batch, int micro)
{
    OrderWatch *w = context;
    const Mesh *mesh = &w->trainer->mesh;
    w->calls.fill(w->calls.context, batch, micro);
    int b = (int)batch->sample_i.dim[0], sample = *(const int32_t *)batch->sample_i.data;
    for (int i = 0; i < slots(w); i++)
        if (slot_of(w, i).batch == batch)
            w->micro[i] = sample == (micro * mesh->size.dp + mesh->at.dp) * b ? micro : STRANGE;
}

static void forward(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    settle(w, RECV, chunk, slot, -1, w->micro[slot]);
    did(w, FORWARD, chunk, w->micro[slot], slot, -1, -1, -1);
    w->compute.forward(w->compute.context, chunk, slot);
}

/* dx and dy are the same number of two chunks' or two neighbours' buffers; without both there is none to see. */
static void backward_input(void *context, int chunk, int slot, Hidden dx, Hidden dy)
{
    OrderWatch *w = context;
    const Pipeline *p = &w->trainer->train.pipeline;
    const Schedule *s = w->trainer->train.schedule;           /* those of other batch sizes have the same stages */
    bool local = schedule_after(&s->shape, s->stage, chunk) == s->stage;
    int out = dx.n > 0 ? buffer_of(w, p->grad_out, chunk, dx) : UNKNOWN;
    int in  = dy.n == 0 ? UNKNOWN : buffer_of(w, local ? p->grad_out : p->grad_in, chunk + local, dy);
    int buffer = out == UNKNOWN || in == out ? in : in == UNKNOWN ? out : STRANGE;
    settle(w, RECV_GRAD, chunk, -1, buffer, w->micro[slot]);
    did(w, BACKWARD_INPUT, chunk, w->micro[slot], slot, -1, buffer, -1);
    w->compute.backward_input(w->compute.context, chunk, slot, dx, dy);
}

static void backward_weight(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    did(w, BACKWARD_WEIGHT, chunk, w->micro[slot], slot, -1, -1, -1);
    w->compute.backward_weight(w->compute.context, chunk, slot);
}

static void start(void *context, bool training)
{
    OrderWatch *w = context;
    w->compute.start(w->compute.context, training);
}

static void look_ahead(void *context, const Schedule *schedule, int row)
{
    OrderWatch *w = context;
    if (w->compute.look_ahead) w->compute.look_ahead(w->compute.context, schedule, row);
}

static PipelineSlot slot_at(void *context, int slot) { return slot_of(context, slot); }

/* ---- the end of a chunk and of the step ---- */

static void reduce(void *context, int chunk)
{
    OrderWatch *w = context;
    did(w, REDUCE, chunk, -1, -1, -1, -1, -1);
    w->calls.reduce(w->calls.context, chunk);
}

/* Counts of this rank alone, which the end of the step adds to those of the others. */
static void loads_read(OrderWatch *w)
{
    const MoeState *moe = &w->trainer->moe;
    const ModelConfig *model = &w->trainer->config->model;
    CHECK(model_layers(model) <= ORDER_LAYERS && model->experts <= ORDER_EXPERTS, "%d layers", (int)model->layers);
    queue_wait(&w->trainer->queue);
    for (int64_t l = 0; l < model_layers(model) && tensor_present(moe->load_nE); l++)
        for (int64_t e = 0; e < model->experts && moe->row[l] >= 0; e++) {
            double load;
            Tensor one = tensor_flat(moe->load_nE, moe->row[l] * moe->load_nE.dim[1] + e, 1);
            dtype_convert(&load, F64, one.data, one.dtype, 1);
            w->load[l][e] = (int64_t)load;
        }
}

static void step(void *context)
{
    OrderWatch *w = context;
    did(w, STEP, -1, -1, -1, -1, -1, -1);
    loads_read(w);
    w->calls.step(w->calls.context);
}

void __real_pipeline_run(Pipeline *pipeline, const Schedule *schedule, PipelineCalls calls);
void __wrap_pipeline_run(Pipeline *pipeline, const Schedule *schedule, PipelineCalls calls);

void __wrap_pipeline_run(Pipeline *p, const Schedule *schedule, PipelineCalls calls)
{
    OrderWatch *w = watching;
    if (!w || schedule == &w->trainer->valid.schedule) {
        __real_pipeline_run(p, schedule, calls);
        return;
    }
    w->count   = 0;                        /* of a step behind an estimate (train/step.c) what it does itself */
    memset(w->load, -1, sizeof w->load);
    w->compute = p->compute;
    w->calls   = calls;
    w->micros  = schedule->shape.micros;
    p->compute.context = w;
    p->compute.start = start;
    p->compute.look_ahead = look_ahead;
    p->compute.slot  = slot_at;
    p->compute.begin = begin;
    p->compute.forward = forward;
    p->compute.backward_input  = backward_input;
    p->compute.backward_weight = backward_weight;
    __real_pipeline_run(p, schedule, (PipelineCalls){ .context = w, .fill = fill, .reduce = reduce, .step = step });
    p->compute = w->compute;
}

/* ---- messages ---- */

static int channel_of(const OrderWatch *w, const Comm *comm)
{
    const Channels *channels = &w->trainer->comms.channels;
    for (int i = 0; i < channels->count; i++)
        if (channels->channel[i].comm == comm) return i;
    return -1;
}

/* The slot or the buffer whose memory the message reads or writes, and the chunk. */
static void message(OrderWatch *w, const Channel *channel, Tensor x)
{
    const Pipeline *p = &w->trainer->train.pipeline;
    const Hidden *buffers = channel->out ? p->grad_out : p->grad_in;
    int chunks = w->trainer->stage.chunks, found = STRANGE, chunk = STRANGE, micro = UNKNOWN;
    for (int i = 0; i < slots(w) && !channel->gradients; i++)
        if (memory(channel->out ? slot_of(w, i).out : slot_of(w, i).in) == x.data) found = i;
    for (int i = 0; i < chunks * p->buffers && channel->gradients; i++)
        if (memory(buffers[i]) == x.data) found = i;
    if (!channel->gradients) {
        if (found >= 0) chunk = w->chunk[found];
        if (found >= 0 && channel->out) micro = w->micro[found];
        did(w, channel->out ? SEND : RECV, chunk, micro, found, channel->peer, -1, -1);
        return;
    }
    if (found >= 0) chunk = found / p->buffers, found %= p->buffers;
    for (int i = 0; i < w->count && channel->out; i++)              /* the last that wrote the buffer */
        if (w->done[i].verb == BACKWARD_INPUT && w->done[i].chunk == chunk && w->done[i].buffer == found)
            micro = w->done[i].micro;
    did(w, channel->out ? SEND_GRAD : RECV_GRAD, chunk, micro, -1, channel->peer, found, -1);
}

Pending __real_comm_send_begin(Comm *comm, Queue *q, Tensor x, int to);
Pending __wrap_comm_send_begin(Comm *comm, Queue *q, Tensor x, int to);
Pending __real_comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from);
Pending __wrap_comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from);
void    __real_comm_wait(Comm *comm, Pending pending);
void    __wrap_comm_wait(Comm *comm, Pending pending);

static Pending seen(const Comm *comm, Tensor x, bool out, Pending pending)
{
    OrderWatch *w = watching;
    int channel = w ? channel_of(w, comm) : -1;
    if (channel < 0) return pending;
    CHECK(w->trainer->comms.channels.channel[channel].out == out, "a channel is used in the other direction");
    message(w, &w->trainer->comms.channels.channel[channel], x);
    if (pending.slot >= 0) w->posted[channel][pending.slot] = w->count - 1;
    return pending;
}

Pending __wrap_comm_send_begin(Comm *comm, Queue *q, Tensor x, int to)
{
    return seen(comm, x, true, __real_comm_send_begin(comm, q, x, to));
}

Pending __wrap_comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from)
{
    return seen(comm, x, false, __real_comm_recv_begin(comm, q, x, from));
}

void __wrap_comm_wait(Comm *comm, Pending pending)
{
    OrderWatch *w = watching;
    int channel = w ? channel_of(w, comm) : -1;
    if (channel >= 0 && pending.slot >= 0)
        did(w, WAIT, UNKNOWN, UNKNOWN, -1, -1, -1, w->posted[channel][pending.slot]);
    __real_comm_wait(comm, pending);
}

/* ---- a step ---- */

void order_begin(OrderWatch *w, Trainer *t)
{
    w->trainer = t;
    w->count   = 0;
    memset(w->load, -1, sizeof w->load);
    watching = w;
}

static bool same(int did, int row) { return did == UNKNOWN || did == row; }

static Status order_compare(const OrderWatch *w, const Schedule *s)
{
    for (int i = 0; i < s->rows && i < w->count; i++) {
        const ScheduleRow *r = &s->row[i], *d = &w->done[i];
        if (d->verb == r->verb && same(d->chunk, r->chunk) && same(d->micro, r->micro) && d->slot == r->slot &&
            d->peer == r->peer && same(d->buffer, r->buffer) && d->posted == r->posted)
            continue;
        return fail(BAD_SHAPE, "stage %d: row %d of the schedule is %s of chunk %d, micro-batch %d, slot %d, peer "
                    "%d, buffer %d, posted by %d; done was %s: %d, %d, %d, %d, %d, %d", s->stage, i,
                    schedule_verb_name(r->verb), r->chunk, r->micro, r->slot, r->peer, r->buffer, r->posted, schedule_verb_name(d->verb), d->chunk,
                    d->micro, d->slot, d->peer, d->buffer, d->posted);
    }
    if (s->rows == w->count) return OK;
    return fail(BAD_SHAPE, "stage %d did %d things, its schedule has %d rows", s->stage, w->count, s->rows);
}

Status order_end(OrderWatch *w)
{
    enum { STAGES = 16 };
    Trainer *t = w->trainer;
    Schedule all[STAGES];
    ScheduleShape shape = train_config_schedule(t->config, w->micros);
    int stages = shape.stages;
    watching = NULL;
    CHECK(stages <= STAGES, "%d stages", stages);
    for (int i = 0; i < stages; i++) TRY(schedule_make(&all[i], &shape, i));
    Status status = schedule_check(all, stages);
    if (status == OK) status = order_compare(w, &all[t->mesh.at.pp]);
    for (int i = 0; i < stages; i++) schedule_free(&all[i]);
    return status;
}
