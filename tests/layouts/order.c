/* Stands between the pipeline and what computes its chunks. */
#include "layouts/order.h"

static void done(OrderWatch *w, ScheduleVerb verb, int chunk, int slot)
{
    CHECK(w->count < ORDER_MOST, "a step of more than %d computations", ORDER_MOST);
    w->done[w->count++] = (Done){ verb, chunk, slot };
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

static PipelineSlot slot_at(void *context, int slot)
{
    OrderWatch *w = context;
    return w->compute.slot(w->compute.context, slot);
}

static void begin(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    w->compute.begin(w->compute.context, chunk, slot);
}

static void forward(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    done(w, FORWARD, chunk, slot);
    w->compute.forward(w->compute.context, chunk, slot);
}

static void backward_input(void *context, int chunk, int slot, Hidden dx, Hidden dy)
{
    OrderWatch *w = context;
    done(w, BACKWARD_INPUT, chunk, slot);
    w->compute.backward_input(w->compute.context, chunk, slot, dx, dy);
}

static void backward_weight(void *context, int chunk, int slot)
{
    OrderWatch *w = context;
    done(w, BACKWARD_WEIGHT, chunk, slot);
    w->compute.backward_weight(w->compute.context, chunk, slot);
}

void order_begin(OrderWatch *w, Trainer *t)
{
    PipelineCompute *compute = &t->pipeline.compute;
    w->trainer = t;
    w->compute = *compute;
    w->count   = 0;
    compute->context = w;
    compute->start   = start;
    compute->look_ahead = look_ahead;
    compute->slot    = slot_at;
    compute->begin   = begin;
    compute->forward = forward;
    compute->backward_input  = backward_input;
    compute->backward_weight = backward_weight;
}

static Status order_compare(const OrderWatch *w, const Schedule *s)
{
    int n = 0;
    for (int i = 0; i < s->rows; i++) {
        const ScheduleRow *row = &s->row[i];
        if (row->verb != FORWARD && row->verb != BACKWARD_INPUT && row->verb != BACKWARD_WEIGHT) continue;
        const Done *did = &w->done[n];
        if (n == w->count || did->verb != row->verb || did->chunk != row->chunk || did->slot != row->slot)
            return fail(BAD_SHAPE, "stage %d: row %d of the schedule is %s of chunk %d in slot %d; computation "
                        "%d of %d was another", s->stage, i, schedule_verb_name(row->verb), row->chunk, row->slot,
                        n, w->count);
        n++;
    }
    if (n == w->count) return OK;
    return fail(BAD_SHAPE, "stage %d computed %d times, its schedule has %d rows", s->stage, w->count, n);
}

Status order_end(OrderWatch *w)
{
    enum { STAGES = 16 };
    Trainer *t = w->trainer;
    Schedule all[STAGES];
    ScheduleShape shape = train_config_schedule(t->config, t->micros);
    int stages = shape.stages;
    CHECK(stages <= STAGES, "%d stages", stages);
    t->pipeline.compute = w->compute;
    for (int i = 0; i < stages; i++) TRY(schedule_make(&all[i], &shape, i));
    Status status = schedule_check(all, stages);
    if (status == OK) status = order_compare(w, &all[t->mesh.at.pp]);
    for (int i = 0; i < stages; i++) schedule_free(&all[i]);
    return status;
}
