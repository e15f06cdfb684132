/* Plans as bytes. A plan begins with its number of bytes; each step with its kind. */
#include "generate/plan.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "comm/broadcast.h"

typedef enum { STEP_BEGIN, STEP_END, STEP_TABLE, STEP_COPY, STEP_TOKEN, STEP_FORWARD } StepKind;
/* count: ids of a prompt with those generated behind it, pages of a table, segments of a forward, which
 * follow */
typedef struct { int32_t kind, data, slot, id; int64_t count, from, to; } Step;

/* So many bytes are sent at first, more in a second message. */
enum { PLAN_FIRST = 1024 };

/* ---- writing ---- */

static void put(Buffer *p, const void *data, size_t bytes) { buffer_add_or_stop(p, data, (int64_t)bytes); }

void plan_clear(Buffer *p)
{
    uint64_t bytes = 0;
    p->bytes = 0;
    put(p, &bytes, sizeof bytes);
}

void plan_begin(Buffer *p, int data, int slot, const Request *request)
{
    put(p, &(Step){ .kind = STEP_BEGIN, .data = data, .slot = slot,
                    .count = request->count + request->generated_count }, sizeof(Step));
    put(p, request, sizeof *request);
    put(p, request->id, (size_t)request->count * sizeof *request->id);
    put(p, request->generated, (size_t)request->generated_count * sizeof *request->generated);
}

void plan_end(Buffer *p, int data, int slot)
{
    put(p, &(Step){ .kind = STEP_END, .data = data, .slot = slot }, sizeof(Step));
}

void plan_table(Buffer *p, int data, int slot, const int32_t *page, int64_t pages)
{
    put(p, &(Step){ .kind = STEP_TABLE, .data = data, .slot = slot, .count = pages }, sizeof(Step));
    put(p, page, (size_t)pages * sizeof *page);
}

void plan_copy(Buffer *p, int data, int64_t from, int64_t to)
{
    put(p, &(Step){ .kind = STEP_COPY, .data = data, .from = from, .to = to }, sizeof(Step));
}

void plan_token(Buffer *p, int data, int slot, int64_t length, int32_t id)
{
    put(p, &(Step){ .kind = STEP_TOKEN, .data = data, .slot = slot, .count = length, .id = id },
        sizeof(Step));
}

void plan_forward(Buffer *p, const ForwardPlan *forward)
{
    put(p, &(Step){ .kind = STEP_FORWARD, .count = forward->segments }, sizeof(Step));
    put(p, forward, sizeof *forward);
    put(p, forward->segment, (size_t)forward->segments * sizeof *forward->segment);
    uint64_t bytes = (uint64_t)p->bytes;
    memcpy(p->text, &bytes, sizeof bytes);
}

/* ---- taking the steps ---- */

static void get(const Buffer *p, size_t *at, void *out, size_t bytes)
{
    CHECK(*at + bytes <= (size_t)p->bytes, "a plan of %lld bytes ends within a step", (long long)p->bytes);
    if (bytes) memcpy(out, p->text + *at, bytes);
    *at += bytes;
}

static void text_begin(const Buffer *p, size_t *at, Sequence *s, int64_t count)
{
    *s = (Sequence){ .active = true, .length = count };
    get(p, at, &s->request, sizeof s->request);
    int64_t most = s->request.count + s->request.most;
    s->id = malloc((size_t)most * sizeof *s->id);
    CHECK(s->id, "no memory for a text of %lld ids", (long long)most);
    get(p, at, s->id, (size_t)count * sizeof *s->id);
    s->request.id = s->id;
}

static void table_take(const Buffer *p, size_t *at, const PlanTarget *t, const Step *step)
{
    int32_t *row = (int32_t *)t->page_i.data + step->slot * t->page_i.dim[1];
    CHECK(step->count <= t->page_i.dim[1], "a text of %lld pages", (long long)step->count);
    if (step->data == data_rank(t->g)) get(p, at, row, (size_t)step->count * sizeof *row);
    else                               *at += (size_t)step->count * sizeof *row;
}

static void forward_take(const Buffer *p, size_t *at, ForwardPlan *forward, int64_t segments)
{
    ForwardPlan sent;
    get(p, at, &sent, sizeof sent);
    sent.segment = forward->segment, sent.room = forward->room, sent.segments = 0;
    *forward = sent;
    for (int64_t i = 0; i < segments; i++) get(p, at, forward_segment(forward), sizeof(Segment));
}

void plan_take(Buffer *p, Comm *world, const PlanTarget *t, ForwardPlan *forward)
{
    uint64_t bytes = (uint64_t)p->bytes;
    size_t at = sizeof bytes;
    ARRAY_RESERVE_OR_STOP(p->text, p->capacity, PLAN_FIRST);
    broadcast_same(world, p->text, PLAN_FIRST);                                   /* <-> world: broadcast */
    memcpy(&bytes, p->text, sizeof bytes);
    ARRAY_RESERVE_OR_STOP(p->text, p->capacity, bytes);
    p->bytes = (int64_t)bytes;
    if (bytes > PLAN_FIRST)
        broadcast_same(world, p->text + PLAN_FIRST, bytes - PLAN_FIRST);          /* <-> world: broadcast */
    while (at < bytes) {
        Step step;
        get(p, &at, &step, sizeof step);
        Sequence *s = &t->sequence[step.data * t->g->sequences + step.slot];
        switch ((StepKind)step.kind) {
        case STEP_BEGIN:   text_begin(p, &at, s, step.count);                                          break;
        case STEP_END:     free(s->id), *s = (Sequence){ .active = false };                            break;
        case STEP_TABLE:   table_take(p, &at, t, &step);                                               break;
        case STEP_COPY:    if (step.data == data_rank(t->g)) t->copy(t->context, step.from, step.to);  break;
        case STEP_TOKEN:   s->id[step.count - 1] = step.id, s->length = step.count;                    break;
        case STEP_FORWARD: forward_take(p, &at, forward, step.count);                                  break;
        }
    }
}

void plan_close(Buffer *p) { buffer_free(p); }

Segment *forward_segment(ForwardPlan *f)
{
    ARRAY_RESERVE_OR_STOP(f->segment, f->room, f->segments + 1);
    return &f->segment[f->segments++];
}
