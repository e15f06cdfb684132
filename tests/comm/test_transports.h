#ifndef TESTS_COMM_TEST_TRANSPORTS_H
#define TESTS_COMM_TEST_TRANSPORTS_H
/* A data transport for tests, over the host's. In order: a call of a communicator is started only when all earlier ones of this
 * rank are complete, and a send is complete only when it has been received, as on one stream of a device library; a schedule that
 * relies on more deadlocks. Delayed: a call is complete no sooner than so many seconds after its start, though its data may have come,
 * and the rank may compute meanwhile. Set as transport->data before comm_world; closed after the comms. */
#include <stdlib.h>
#include <unistd.h>
#include "base/seam.h"
#include "comm/data_transport.h"

enum { TEST_CALLS = 1024 };
struct DataGroup { DataGroup *inner; DataTransport *transport; };       /* each transport defines its own */
typedef struct { bool used, started, came, done; DataCall call; DataGroup *group; int number; long order; int64_t due; } TestCall;
typedef struct { DataTransport face, *inner; bool in_order; double delay; long calls; int top; TestCall call[TEST_CALLS]; } TestTransport;

static DataGroup *test_group_open(DataTransport *d, Transport *control, const int *ranks, int count, int sum_group)
{
    TestTransport *t = d->self;
    DataGroup *g = malloc(sizeof *g);
    if (g) *g = (DataGroup){ t->inner->group_open(t->inner, control, ranks, count, sum_group), t->inner };
    return g;
}

static void test_group_close(DataTransport *d, DataGroup *g)
{
    TestTransport *t = d->self;
    t->inner->group_close(t->inner, g->inner);
    free(g);
}

static size_t  test_window (const DataGroup *g, Dtype type, int64_t part) { return g->transport->window(g->inner, type, part); }
static int64_t test_payload(const DataGroup *g, const DataCall *call) { return g->transport->payload(g->inner, call); }

/* Whether an earlier call of the same communicator is not complete. */
static bool test_waits_behind(const TestTransport *t, const TestCall *c)
{
    for (int i = 0; t->in_order && i < t->top; i++) {
        const TestCall *o = &t->call[i];
        if (o->used && !o->done && o->group == c->group && o->order < c->order) return true;
    }
    return false;
}

static bool test_advance(TestTransport *t)
{
    bool moved = false;
    for (int i = 0; i < t->top; i++) {
        TestCall *c = &t->call[i];
        if (!c->used || c->done) continue;
        if (!c->started && !test_waits_behind(t, c)) {
            c->number  = t->inner->begin(t->inner, c->group->inner, &c->call);
            c->due     = seam.clock() + (int64_t)(t->delay * 1e9);
            c->started = moved = true;
        }
        if (c->started && !c->came && t->inner->done(t->inner, c->number)) c->came = moved = true;
        if (c->came && seam.clock() >= c->due) c->done = moved = true;
    }
    return moved;
}

static int test_begin(DataTransport *d, DataGroup *g, const DataCall *call)
{
    TestTransport *t = d->self;
    int i = 0;
    while (i < TEST_CALLS && t->call[i].used) i++;
    CHECK(i < TEST_CALLS, "more than %d calls", TEST_CALLS);
    if (i >= t->top) t->top = i + 1;
    queue_wait(call->queue);
    t->call[i] = (TestCall){ .used = true, .call = *call, .group = g, .order = t->calls++ };
    test_advance(t);
    return i;
}

static void test_poll(DataTransport *d, bool within)
{
    TestTransport *t = d->self;
    do t->inner->poll(t->inner, within);
    while (test_advance(t) && !within);
}

static bool test_done(DataTransport *d, int number)
{
    TestTransport *t = d->self;
    if (!t->call[number].done) return false;
    t->call[number].used = false;
    while (t->top > 0 && !t->call[t->top - 1].used) t->top--;
    return true;
}

/* Until the call, or the one that it waits behind, may have moved. */
static void test_idle(DataTransport *d, int number)
{
    TestTransport *t = d->self;
    const TestCall *c = &t->call[number];
    for (int i = 0; i < t->top; i++) {
        const TestCall *o = &t->call[i];
        if (o->used && o->started && !o->done && o->group == c->group && o->order < c->order && t->in_order) c = o;
    }
    if (t->delay > 0 || c->came || !c->started) usleep(50);
    else t->inner->idle(t->inner, c->number);
}

static void test_wait(DataTransport *d, Queue *queue, int number)
{
    (void)queue;
    for (;;) {
        test_poll(d, false);
        if (test_done(d, number)) return;
        test_idle(d, number);
    }
}

static void test_close(DataTransport *d)
{
    TestTransport *t = d->self;
    t->inner->close(t->inner);
    free(t);
}

static inline DataTransport *test_transport_open(Transport *control, bool in_order, double delay)
{
    TestTransport *t = calloc(1, sizeof *t);
    DataTransport *inner = host_data_open(control);
    CHECK(t && inner, "no memory for a transport");
    *t = (TestTransport){ .inner = inner, .in_order = in_order, .delay = delay };
    t->face = (DataTransport){ .name = in_order ? "in order" : "delayed", .self = t, .group_open = test_group_open,
        .group_close = test_group_close, .window = test_window, .payload = test_payload, .begin = test_begin, .poll = test_poll,
        .done = test_done, .idle = test_idle, .wait = test_wait, .close = test_close };
    return &t->face;
}
#endif
