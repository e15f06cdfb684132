/* The transport between ranks that are threads of one process.
 *
 * A collective is a numbered slot of its group. Each member stores there where its data is; when all
 * members have arrived, each copies what it needs from the others' buffers. The collective is complete
 * when all have copied, because only then may the members change their buffers. A message is copied by
 * its receiver. A poll copies for all requests of its thread, so requests may be waited for in any order
 * without deadlock.
 *
 * One lock for the whole job protects all state. It is held only to inspect and to change that state,
 * never while bytes are copied: the buffers are stable then, since neither side's request is complete. */
#include "comm/transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 64 };                   /* collectives of one group that may be in progress at the same time */
typedef enum { FREE, COLLECTIVE, SEND, RECV } RequestKind;
typedef enum { ABSENT, ARRIVED, COPIED } PartState;

typedef struct Request Request;
/* One member's contribution. in_at: [count + 1] offsets of the block for each member, in elements of
 * `bytes`; NULL: every member gets all `bytes`. The memory belongs to the member, and so does its request. */
typedef struct {
    PartState state;
    const char *in;
    const int64_t *in_at;
    size_t    bytes;
    Request  *request;
} MemberPart;
/* Collective k uses slot k % SLOTS. done: the number of the last collective that all members completed
 * in this slot; arrived, copied: how many members have. part: [count]. */
typedef struct { long done; int arrived, copied; MemberPart *part; } CollectiveSlot;

typedef struct GroupState {            /* shared by the members of a group */
    struct GroupState *next;           /* list of the job */
    int   count, closed;               /* members; members that have closed it */
    int  *rank;                        /* [count] in the job, ascending */
    bool *has_opened;                  /* [count] */
    CollectiveSlot slot[SLOTS];
} GroupState;

struct Group {                         /* one member's own view */
    GroupState *group_state;
    int      me;                       /* this member's index */
    long     number;                   /* collectives begun */
    long    *sent, *received;          /* [count] messages begun, by member: their order */
};

struct Request {
    RequestKind kind;
    Group *group;
    long   number;
    int    peer, tag;                  /* SEND, RECV: index of the other member */
    char  *out;                        /* RECV, COLLECTIVE: destination */
    const int64_t *out_at;             /* COLLECTIVE: [count + 1] offsets; NULL: one block of a member */
    const char    *in;                 /* SEND: source */
    size_t bytes;                      /* of a message, a block, or an element where out_at is used */
    bool   done;                       /* the receiver or, for COLLECTIVE, this member has copied */
};

typedef struct ThreadsJob ThreadsJob;
typedef struct {                       /* one rank */
    ThreadsJob    *job;
    Transport      transport;
    Request        request[TRANSPORT_REQUESTS];
    int            top;                /* requests at this index and above are free */
    /* `wake` is signalled, and `events` counted, when a request of this rank may be able to proceed; `seen`:
     * the events at its last poll. */
    pthread_cond_t wake;
    long           events, seen;
    bool           waits;              /* for `wake`, and nobody has undertaken to signal it */
    /* A bit for each rank that this one signals when it has released the lock, owned; of them the number. A
     * rank may wake by itself and wait again before it is signalled, and then is in the sets of several. */
    uint64_t      *to_wake;
    int            wakes;
    pthread_t      thread;
    bool           left;               /* its body has returned */
    Status         status;             /* what the body returned, and its message */
    char           text[FAIL_BYTES];
} RankState;

struct ThreadsJob {
    pthread_mutex_t lock;
    int         ranks;
    RankState  *rank_state;            /* [ranks], owned */
    GroupState *group_states;          /* list of all groups that some member has not closed, owned */
    RankBody   *body;
    void       *context;
};

/* ---- groups ---- */
static GroupState *group_state_make(const int *ranks, int count)
{
    size_t      n = (size_t)count;
    GroupState *m = calloc(1, sizeof *m);
    CHECK(m, "no memory for a group of %d ranks", count);
    MemberPart *part = calloc(n * SLOTS, sizeof *part);
    m->rank       = calloc(n, sizeof *m->rank);
    m->has_opened = calloc(n, sizeof *m->has_opened);
    CHECK(part && m->rank && m->has_opened, "no memory for a group of %d ranks", count);
    m->count = count;
    memcpy(m->rank, ranks, n * sizeof *ranks);
    /* As if collectives -SLOTS .. -1 were complete: a slot is free for collective k where k - SLOTS is
     * done. */
    for (int i = 0; i < SLOTS; i++)
        m->slot[i] = (CollectiveSlot){ .done = i - SLOTS, .part = part + (size_t)i * n };
    return m;
}

/* Removes the group from the list of the job, which it must be on. */
static void group_state_free(ThreadsJob *job, GroupState *gone)
{
    GroupState **at = &job->group_states;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    free(gone->slot[0].part);
    free(gone->rank);
    free(gone->has_opened);
    free(gone);
}

/* The first group of these ranks that this member has not opened yet, or a new one. Since all members
 * open their groups in the same order, the k-th opening of a member meets the k-th of every other. */
static GroupState *group_state_find(ThreadsJob *job, const int *ranks, int count, int me)
{
    GroupState **at = &job->group_states;
    for (; *at; at = &(*at)->next)
        if ((*at)->count == count && !(*at)->has_opened[me] &&
            memcmp((*at)->rank, ranks, (size_t)count * sizeof *ranks) == 0)
            return *at;
    return *at = group_state_make(ranks, count);
}

static Group *threads_group_open(Transport *t, const int *ranks, int count)
{
    ThreadsJob *job = ((RankState *)t->self)->job;
    Group      *g   = calloc(1, sizeof *g);
    CHECK(g, "no memory for a group of %d ranks", count);
    while (ranks[g->me] != t->rank) g->me++;
    g->sent     = calloc((size_t)count, sizeof *g->sent);
    g->received = calloc((size_t)count, sizeof *g->received);
    CHECK(g->sent && g->received, "no memory for a group of %d ranks", count);
    pthread_mutex_lock(&job->lock);
    g->group_state = group_state_find(job, ranks, count, g->me);
    g->group_state->has_opened[g->me] = true;
    pthread_mutex_unlock(&job->lock);
    return g;
}

static void threads_group_close(Transport *t, Group *g)
{
    ThreadsJob *job = ((RankState *)t->self)->job;
    pthread_mutex_lock(&job->lock);
    if (++g->group_state->closed == g->group_state->count) group_state_free(job, g->group_state);
    pthread_mutex_unlock(&job->lock);
    free(g->sent);
    free(g->received);
    free(g);
}

/* ---- requests ---- */
/* The functions up to request_gone are called with the lock held, and release it only to copy. */
static int request_new(RankState *rank_state, Request request)
{
    for (int i = 0; i < TRANSPORT_REQUESTS; i++)
        if (rank_state->request[i].kind == FREE) {
            rank_state->request[i] = request;
            if (i >= rank_state->top) rank_state->top = i + 1;
            return i;
        }
    stop_world(__FILE__, __LINE__, "more than %d requests are in progress on one rank", TRANSPORT_REQUESTS);
}

static void request_free(RankState *rank_state, int i)
{
    rank_state->request[i].kind = FREE;
    while (rank_state->top > 0 && rank_state->request[rank_state->top - 1].kind == FREE) rank_state->top--;
}

static CollectiveSlot *request_slot(const Request *r)
{
    return &r->group->group_state->slot[r->number % SLOTS];
}

static bool request_done(const Request *r)
{
    return r->kind == COLLECTIVE ? request_slot(r)->done >= r->number : r->done;
}

/* Called with the lock held. The signal follows its release, so that the rank does not wake to wait for the
 * lock. */
static void wake_rank(RankState *by, int rank)
{
    RankState *other = &by->job->rank_state[rank];
    other->events++;
    if (other->waits) by->to_wake[rank / 64] |= (uint64_t)1 << rank % 64, by->wakes++;
    other->waits = false;
}

/* Wakes all members of a group, since any of them may wait for what has just changed. */
static void wake_all(RankState *by, const GroupState *m)
{
    for (int i = 0; i < m->count; i++) wake_rank(by, m->rank[i]);
}

/* Releases the lock, and signals those to wake. */
static void job_unlock(RankState *by)
{
    ThreadsJob *job = by->job;
    pthread_mutex_unlock(&job->lock);
    for (int r = 0; by->wakes > 0; r += 64)
        for (uint64_t *set = &by->to_wake[r / 64]; *set; *set &= *set - 1, by->wakes--)
            pthread_cond_signal(&job->rank_state[r + __builtin_ctzll(*set)].wake);
}

/* Called without the lock. The slot cannot change meanwhile: it is reused only after this member has
 * copied too. */
static void collective_copy(const Request *r)
{
    const GroupState *m = r->group->group_state;
    for (int i = 0; i < m->count; i++) {
        const MemberPart *from = &request_slot(r)->part[i];
        const int64_t *in_at = from->in_at ? from->in_at + r->group->me : NULL;
        const int64_t *place = r->out_at ? r->out_at + i : (int64_t[]){ i, i + 1 };
        size_t   at      = in_at ? (size_t)in_at[0] * from->bytes : 0;
        size_t   bytes   = in_at ? (size_t)(in_at[1] - in_at[0]) * from->bytes : from->bytes;
        char    *out     = r->out + (size_t)place[0] * r->bytes;
        size_t   space   = (size_t)(place[1] - place[0]) * r->bytes;
        CHECK(bytes == space, "rank %d sends %zu bytes where rank %d expects %zu", m->rank[i], bytes,
              m->rank[r->group->me], space);
        if (bytes > 0 && out != from->in + at) memcpy(out, from->in + at, bytes);
    }
}

/* For the collective SLOTS later. */
static void slot_free(CollectiveSlot *slot, int count)
{
    slot->arrived = slot->copied = 0;
    slot->done += SLOTS;
    for (int i = 0; i < count; i++) slot->part[i].state = ABSENT;
}

/* Copies for one collective, if all members have arrived. True where it copied. The last member to copy
 * frees the slot and wakes the members, whose buffers are theirs again. */
static bool collective_move(RankState *rank_state, Request *r)
{
    ThreadsJob     *job  = rank_state->job;
    GroupState     *m    = r->group->group_state;
    CollectiveSlot *slot = request_slot(r);
    if (r->done || slot->arrived < m->count) return false;
    job_unlock(rank_state);
    collective_copy(r);
    pthread_mutex_lock(&job->lock);
    r->done = true;
    slot->part[r->group->me].state = COPIED;
    if (++slot->copied == m->count) {
        slot_free(slot, m->count);
        wake_all(rank_state, m);
    }
    return true;
}

/* Of few bytes the last member to arrive copies what all members get, with the lock held: the others then
 * wake once instead of twice. */
static void collective_move_small(const GroupState *m, CollectiveSlot *slot)
{
    enum { SMALL = 1 << 16 };
    size_t bytes = 0;
    for (int i = 0; i < m->count; i++) {
        const MemberPart *p = &slot->part[i];
        bytes += p->in_at ? (size_t)(p->in_at[m->count] - p->in_at[0]) * p->bytes
                          : p->bytes * (size_t)m->count;
    }
    if (bytes > SMALL) return;
    for (int i = 0; i < m->count; i++) {
        collective_copy(slot->part[i].request);
        slot->part[i].request->done = true;
    }
    slot_free(slot, m->count);
}

/* The oldest message of a rank that no receive has taken yet, of the kind, group, peer and tag; NULL: none.
 * */
static Request *message_oldest(RankState *rank_state, RequestKind kind, const GroupState *m, int peer,
                               int tag)
{
    Request *oldest = NULL;
    for (int i = 0; i < rank_state->top; i++) {
        Request *r = &rank_state->request[i];
        if (r->kind == kind && !r->done && r->group->group_state == m && r->peer == peer && r->tag == tag &&
            (!oldest || r->number < oldest->number))
            oldest = r;
    }
    return oldest;
}

/* Copies one message, if its sender has begun it: the oldest of its pair and tag, for the oldest receive.
 * True where it copied. The sender's request stays in its table while the lock is released, because only
 * this copy completes it. */
static bool message_move(RankState *rank_state, Request *r)
{
    ThreadsJob *job = rank_state->job;
    const GroupState *m = r->group->group_state;
    if (r->done) return false;
    RankState *from = &job->rank_state[m->rank[r->peer]];
    Request   *s    = message_oldest(from, SEND, m, r->group->me, r->tag);
    if (!s || message_oldest(rank_state, RECV, m, r->peer, r->tag) != r) return false;
    CHECK(s->bytes == r->bytes, "rank %d sends %zu bytes where rank %d expects %zu", from->transport.rank,
          s->bytes, m->rank[r->group->me], r->bytes);
    job_unlock(rank_state);
    if (r->bytes > 0) memcpy(r->out, s->in, r->bytes);
    pthread_mutex_lock(&job->lock);
    s->done = r->done = true;
    wake_rank(rank_state, from->transport.rank);
    return true;
}

/* One pass over the rank's requests. True where any bytes were copied, after which the caller looks again. */
static bool rank_state_progress(RankState *rank_state)
{
    bool moved = false;
    for (int i = 0; i < rank_state->top; i++) {
        Request *r = &rank_state->request[i];
        if (r->kind == COLLECTIVE) moved |= collective_move(rank_state, r);
        if (r->kind == RECV) moved |= message_move(rank_state, r);
    }
    if (moved) rank_state->events++;
    return moved;
}

/* A rank that has ended and without which the request can never complete, or -1. */
static int request_gone(const ThreadsJob *job, const Request *r)
{
    const GroupState *m = r->group->group_state;
    if (r->kind != COLLECTIVE) return job->rank_state[m->rank[r->peer]].left ? m->rank[r->peer] : -1;
    for (int i = 0; i < m->count; i++)
        if (job->rank_state[m->rank[i]].left && request_slot(r)->part[i].state != COPIED)
            return m->rank[i];
    return -1;
}

/* ---- the transport ---- */
/* Takes the group's next number and its slot, and stores this member's part there. The last member to
 * arrive wakes the others. */
static int collective_begin(Transport *t, Group *g, Request request, MemberPart part)
{
    RankState *rank_state = t->self;
    pthread_mutex_lock(&rank_state->job->lock);
    request.kind   = COLLECTIVE;
    request.group  = g;
    request.number = g->number++;
    CollectiveSlot *slot = request_slot(&request);
    CHECK(slot->done == request.number - SLOTS, "more than %d collectives of one group are in progress",
          SLOTS);
    slot->part[g->me] = part;
    int made = request_new(rank_state, request);
    slot->part[g->me].request = &rank_state->request[made];
    if (++slot->arrived == g->group_state->count) {
        collective_move_small(g->group_state, slot);
        wake_all(rank_state, g->group_state);
    }
    job_unlock(rank_state);
    return made;
}

static int threads_all_gather(Transport *t, Group *g, void *out, const int64_t *at, const void *in,
                              size_t width)
{
    size_t own = at ? (size_t)(at[g->me + 1] - at[g->me]) * width : width;
    return collective_begin(t, g, (Request){ .out = out, .out_at = at, .bytes = width },
                            (MemberPart){ .state = ARRIVED, .in = in, .bytes = own });
}

static int threads_all_to_all(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in,
                              const int64_t *in_at, size_t width)
{
    return collective_begin(t, g, (Request){ .out = out, .out_at = out_at, .bytes = width },
                            (MemberPart){ .state = ARRIVED, .in = in, .in_at = in_at, .bytes = width });
}

/* Wakes a peer that has begun to receive this message. A receiver itself copies a message that was sent
 * before. */
static int message_begin(Transport *t, Request request)
{
    RankState *rank_state = t->self;
    ThreadsJob *job = rank_state->job;
    const GroupState *m = request.group->group_state;
    pthread_mutex_lock(&job->lock);
    int made = request_new(rank_state, request);
    if (request.kind == SEND &&
        message_oldest(&job->rank_state[m->rank[request.peer]], RECV, m, request.group->me, request.tag))
        wake_rank(rank_state, m->rank[request.peer]);
    job_unlock(rank_state);
    return made;
}

static int threads_send(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag)
{
    long number = g->sent[to]++;
    return message_begin(t, (Request){ SEND, g, number, to, tag, .in = data, .bytes = bytes });
}

static int threads_recv(Transport *t, Group *g, void *data, size_t bytes, int from, int tag)
{
    long number = g->received[from]++;
    return message_begin(t, (Request){ RECV, g, number, from, tag, .out = data, .bytes = bytes });
}

static void threads_poll(Transport *t)
{
    RankState *rank_state = t->self;
    pthread_mutex_lock(&rank_state->job->lock);
    rank_state->seen = rank_state->events;
    rank_state_progress(rank_state);
    job_unlock(rank_state);
}

static bool threads_test(Transport *t, int request)
{
    RankState *rank_state = t->self;
    pthread_mutex_lock(&rank_state->job->lock);
    bool done = request_done(&rank_state->request[request]);
    if (done) request_free(rank_state, request);
    pthread_mutex_unlock(&rank_state->job->lock);
    return done;
}

/* Sleeps on the rank's condition variable. Every change that can let the rank proceed is counted and signals
 * that variable under the lock, so no wake-up is missed. */
static void threads_idle(Transport *t, int request)
{
    RankState  *rank_state = t->self;
    ThreadsJob *job        = rank_state->job;
    pthread_mutex_lock(&job->lock);
    if (rank_state->events == rank_state->seen) {
        int gone = request_gone(job, &rank_state->request[request]);
        CHECK(gone < 0, "waits for rank %d, which has ended: %s", gone,
              job->rank_state[gone].status == OK ? "it returned without an error"
                                                 : job->rank_state[gone].text);
        while (rank_state->events == rank_state->seen) {
            rank_state->waits = true;
            pthread_cond_wait(&rank_state->wake, &job->lock);
        }
        rank_state->waits = false;
    }
    pthread_mutex_unlock(&job->lock);
}

static void threads_abort(Transport *t, int exit_code)
{
    (void)t;
    _exit(exit_code);
}

static void threads_close(Transport *t)
{
    (void)t;                                          /* transport_threads_run frees it */
}

/* ---- the job ---- */
/* The main function of a rank's thread. Its message is copied, because fail_text() is thread-local. */
static void *rank_thread(void *context)
{
    RankState  *rank_state = context;
    ThreadsJob *job        = rank_state->job;
    thread_context()->rank = rank_state->transport.rank;
    Status status = job->body(&rank_state->transport, job->context);
    pthread_mutex_lock(&job->lock);
    rank_state->status = status;
    snprintf(rank_state->text, sizeof rank_state->text, "%s", status == OK ? "" : fail_text());
    rank_state->left = true;
    for (int r = 0; r < job->ranks; r++)              /* who waits for this rank finds request_gone */
        wake_rank(rank_state, r);
    job_unlock(rank_state);
    return NULL;
}

static void rank_open(ThreadsJob *job, int rank)
{
    RankState *rank_state = &job->rank_state[rank];
    rank_state->job = job;
    rank_state->to_wake = calloc((size_t)job->ranks / 64 + 1, sizeof *rank_state->to_wake);
    CHECK(rank_state->to_wake, "no memory for %d ranks", job->ranks);
    pthread_cond_init(&rank_state->wake, NULL);
    rank_state->transport = (Transport){
        .abi = TRANSPORT_ABI, .kind = TRANSPORT_THREADS, .name = "threads", .rank = rank,
        .size = job->ranks, .self = rank_state,
        .group_open = threads_group_open, .group_close = threads_group_close,
        .all_gather = threads_all_gather, .all_to_all = threads_all_to_all,
        .send = threads_send, .recv = threads_recv, .poll = threads_poll, .test = threads_test,
        .idle = threads_idle, .abort = threads_abort, .close = threads_close,
    };
}

/* The lowest failing rank's, as agree() chooses. */
static Status job_status(const ThreadsJob *job)
{
    for (int r = 0; r < job->ranks; r++)
        if (job->rank_state[r].status != OK)
            return fail(job->rank_state[r].status, "%s", job->rank_state[r].text);
    return OK;
}

Status transport_threads_run(int ranks, RankBody *body, void *context)
{
    ThreadsJob job = { .lock = PTHREAD_MUTEX_INITIALIZER, .ranks = ranks, .body = body, .context = context };
    job.rank_state = calloc((size_t)ranks, sizeof *job.rank_state);
    if (!job.rank_state) return fail(NO_MEMORY, "no memory for %d ranks", ranks);
    for (int r = 0; r < ranks; r++) rank_open(&job, r);
    for (int r = 0; r < ranks; r++)
        CHECK(pthread_create(&job.rank_state[r].thread, NULL, rank_thread, &job.rank_state[r]) == 0,
              "the system refuses a thread for rank %d of %d; use fewer --ranks", r, ranks);
    for (int r = 0; r < ranks; r++) pthread_join(job.rank_state[r].thread, NULL);

    Status status = job_status(&job);
    for (int r = 0; r < ranks; r++) {
        pthread_cond_destroy(&job.rank_state[r].wake);
        free(job.rank_state[r].to_wake);
    }
    while (job.group_states)                          /* left open by ranks that failed */
        group_state_free(&job, job.group_states);
    free(job.rank_state);
    return status;
}
