#ifndef TESTS_COMM_TEST_TRANSPORTS_H
#define TESTS_COMM_TEST_TRANSPORTS_H
/* A data transport for tests, over the host's. In order: a call of a communicator is started only when all earlier ones of this
 * rank are complete, and a send is complete only when it has been received, as on one stream of a device library; a schedule that
 * relies on more deadlocks. Delayed: a call is complete no sooner than so many seconds after its start, though its data may have come,
 * and the rank may compute meanwhile. Timed: the same by a clock of each rank, which computations advance (test_clock_add): a call is
 * complete so many seconds after the last of its ranks has begun it, and a wait sets the clock to that. So times are the same on
 * each machine, whatever else it does; that messages progress while a rank computes is taken for granted. Set as transport->data
 * before comm_world; closed after the comms. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/random.h"
#include "base/seam.h"
#include "comm/data_transport.h"

enum { TEST_CALLS = 1024 };
/* each transport defines its own. key: the same on its ranks alone; collectives, sent, received [count]: begun so far */
struct DataGroup { DataGroup *inner; DataTransport *transport; uint64_t key; int rank, count; long collectives, *sent, *received; };
/* meeting: what all ranks of a call name it by; of an exchange two messages */
typedef struct { bool used, started, came, done; DataCall call; DataGroup *group; int number; long order; int64_t due; uint64_t meeting[2]; } TestCall;
typedef struct { DataTransport face, *inner; bool in_order, timed; double delay; long calls; int top; TestCall call[TEST_CALLS];
    int groups; uint64_t opened[64]; } TestTransport;

/* ---- clocks ---- */
enum { MEETINGS = 1 << 16 };
static struct { pthread_mutex_t lock; uint64_t key[MEETINGS]; int64_t begun[MEETINGS]; } meetings = { .lock = PTHREAD_MUTEX_INITIALIZER };
static _Thread_local int64_t test_clock;                                /* nanoseconds, of this rank */

static inline int64_t test_clock_read(void) { return test_clock; }
static inline void    test_clock_add(double seconds) { test_clock += (int64_t)(seconds * 1e9); }
/* Before ranks are started. */
static inline void    test_clocks_reset(void) { memset(meetings.key, 0, sizeof meetings.key); }

/* When the last rank began it, of those that have; this one began at `now`. */
static int64_t test_meet(uint64_t key, int64_t now)
{
    pthread_mutex_lock(&meetings.lock);
    uint64_t i = key % MEETINGS;
    while (meetings.key[i] != 0 && meetings.key[i] != key) i = (i + 1) % MEETINGS;
    if (meetings.key[i] == 0 || meetings.begun[i] < now) meetings.begun[i] = now;
    meetings.key[i] = key;
    int64_t last = meetings.begun[i];
    pthread_mutex_unlock(&meetings.lock);
    return last;
}

static uint64_t test_message(DataGroup *g, int from, int to)
{
    long number = from == g->rank ? g->sent[to]++ : g->received[from]++;
    return random_mix(g->key, ((uint64_t)from << 48 | (uint64_t)to << 32) + (uint64_t)number + 1);
}

/* The call is about to begin. */
static void test_call_meet(TestCall *c)
{
    DataGroup *g = c->group;
    const DataCall *call = &c->call;
    switch (call->verb) {
    case DATA_SEND: c->meeting[0] = test_message(g, g->rank, call->peer); break;
    case DATA_RECV: c->meeting[0] = test_message(g, call->peer, g->rank); break;
    case DATA_EXCHANGE:
        c->meeting[0] = test_message(g, g->rank, call->peer);
        c->meeting[1] = test_message(g, call->from, g->rank);
        break;
    default: c->meeting[0] = random_mix(g->key, (uint64_t)1 << 63 | (uint64_t)g->collectives++);
    }
    for (int i = 0; i < 2; i++)
        if (c->meeting[i]) test_meet(c->meeting[i], test_clock);
}

static DataGroup *test_group_open(DataTransport *d, Transport *control, const int *ranks, int count, int sum_group, const char *name)
{
    TestTransport *t = d->self;
    DataGroup *g = malloc(sizeof *g);
    uint64_t key = 1;
    for (int r = 0; r < count; r++) key = random_mix(key, (uint64_t)ranks[r]);
    for (int i = 0; i < t->groups; i++) key += t->opened[i] == key;     /* the same ranks once more */
    CHECK(g && t->groups < 64, "no room for a group");
    t->opened[t->groups++] = key;
    *g = (DataGroup){ .inner = t->inner->group_open(t->inner, control, ranks, count, sum_group, name), .transport = t->inner, .key = key,
        .count = count, .sent = calloc((size_t)count, sizeof(long)), .received = calloc((size_t)count, sizeof(long)) };
    CHECK(g->sent && g->received, "no memory for a group");
    while (ranks[g->rank] != control->rank) g->rank++;
    return g;
}

static void test_group_close(DataTransport *d, DataGroup *g)
{
    TestTransport *t = d->self;
    t->inner->group_close(t->inner, g->inner);
    free(g->sent);
    free(g->received);
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
            c->due     = t->timed ? 0 : seam.clock() + (int64_t)(t->delay * 1e9);
            c->started = moved = true;
        }
        if (c->started && !c->came && t->inner->done(t->inner, c->number)) c->came = moved = true;
        if (c->came && (t->timed || seam.clock() >= c->due)) c->done = moved = true;
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
    if (t->timed) test_call_meet(&t->call[i]);
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
    if ((t->delay > 0 && !t->timed) || c->came || !c->started) usleep(50);
    else t->inner->idle(t->inner, c->number);
}

static void test_wait(DataTransport *d, Queue *queue, int number)
{
    TestTransport *t = d->self;
    const TestCall *c = &t->call[number];
    (void)queue;
    for (;;) {
        test_poll(d, false);
        if (test_done(d, number)) break;
        test_idle(d, number);
    }
    for (int i = 0; t->timed && i < 2 && c->meeting[i]; i++) {
        int64_t due = test_meet(c->meeting[i], 0) + (int64_t)(t->delay * 1e9);
        if (test_clock < due) test_clock = due;
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

/* Timed: each call takes `delay` seconds by the clocks. */
static inline DataTransport *timed_transport_open(Transport *control, double delay)
{
    DataTransport *d = test_transport_open(control, false, delay);
    ((TestTransport *)d->self)->timed = true;
    test_clock = 0;
    return d;
}
#endif
