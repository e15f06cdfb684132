/* Ranks as threads of one process. A collective is a numbered slot of its group: each member lays down where its
 * data is, and when all have, each copies what it needs from the others; a request is done when all have copied,
 * so that a buffer is free again then. A message is copied by its receiver. Whoever waits copies for all its
 * requests, so any order of waiting works. One lock for the job, held only to look and to note; copying is
 * outside it. */
#include "comm/transport.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 64 };
typedef enum { FREE, COLLECTIVE, SEND, RECV } Kind;
typedef enum { AWAY, ARRIVED, COPIED } Stage;

/* What one member gives; in_at NULL: all get all of it. */
typedef struct { Stage stage; const char *in; const size_t *in_at; size_t bytes; } Part;
typedef struct { long done; int arrived, copied; Part *part; } Slot;    /* done: the last number all finished */

typedef struct Meeting {               /* what the members of a group share */
    struct Meeting *next;
    int  count, opened, closed;
    int *rank;                         /* in the job */
    bool *has_opened;
    Slot slot[SLOTS];
} Meeting;

struct Group {                         /* a member's own view */
    Meeting *meeting;
    int      me;
    long     number;                   /* collectives begun */
    long    *sent, *received;          /* messages begun, by member */
};

typedef struct {
    Kind   kind;
    Group *group;
    long   number;
    int    peer;
    char  *out;                        /* RECV, COLLECTIVE */
    const size_t *out_at;              /* NULL: blocks of `bytes` */
    const char   *in;                  /* SEND */
    size_t bytes;
    bool   done;                       /* SEND, RECV: copied by the receiver.  COLLECTIVE: I have copied */
} Request;

typedef struct Job Job;
typedef struct {                       /* a rank */
    Job           *job;
    Transport      transport;
    Request        request[TRANSPORT_REQUESTS];
    int            top;                /* requests beyond it are free */
    pthread_cond_t wake;
    pthread_t      thread;
    bool           left;               /* its body has returned */
    Status         status;
    char           text[512];
} Seat;

struct Job {
    pthread_mutex_t lock;
    int        ranks;
    Seat      *seat;
    Meeting   *meetings;
    RankBody  *body;
    void      *context;
};

/* ---- groups ---- */
static Meeting *meeting_make(const int *ranks, int count)
{
    size_t   n = (size_t)count;
    Meeting *m = calloc(1, sizeof *m);
    CHECK(m, "no memory for a group of %d ranks", count);
    Part *part    = calloc(n * SLOTS, sizeof *part);
    m->rank       = calloc(n, sizeof *m->rank);
    m->has_opened = calloc(n, sizeof *m->has_opened);
    CHECK(part && m->rank && m->has_opened, "no memory for a group of %d ranks", count);
    m->count = count;
    memcpy(m->rank, ranks, n * sizeof *ranks);
    for (int i = 0; i < SLOTS; i++)
        m->slot[i] = (Slot){ .done = i - SLOTS, .part = part + (size_t)i * n };
    return m;
}

static void meeting_free(Job *job, Meeting *gone)
{
    Meeting **at = &job->meetings;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    free(gone->slot[0].part);
    free(gone->rank);
    free(gone->has_opened);
    free(gone);
}

/* The first meeting of these ranks that this one has not opened yet: all open theirs in the same order. */
static Meeting *meeting_find(Job *job, const int *ranks, int count, int me)
{
    Meeting **at = &job->meetings;
    for (; *at; at = &(*at)->next)
        if ((*at)->count == count && !(*at)->has_opened[me] &&
            memcmp((*at)->rank, ranks, (size_t)count * sizeof *ranks) == 0)
            return *at;
    return *at = meeting_make(ranks, count);
}

static Group *threads_group_open(Transport *t, const int *ranks, int count)
{
    Job   *job = ((Seat *)t->self)->job;
    Group *g   = calloc(1, sizeof *g);
    CHECK(g, "no memory for a group of %d ranks", count);
    while (ranks[g->me] != t->rank) g->me++;
    g->sent     = calloc((size_t)count, sizeof *g->sent);
    g->received = calloc((size_t)count, sizeof *g->received);
    CHECK(g->sent && g->received, "no memory for a group of %d ranks", count);
    pthread_mutex_lock(&job->lock);
    g->meeting = meeting_find(job, ranks, count, g->me);
    g->meeting->has_opened[g->me] = true;
    pthread_mutex_unlock(&job->lock);
    return g;
}

static void threads_group_close(Transport *t, Group *g)
{
    Job *job = ((Seat *)t->self)->job;
    pthread_mutex_lock(&job->lock);
    if (++g->meeting->closed == g->meeting->count) meeting_free(job, g->meeting);
    pthread_mutex_unlock(&job->lock);
    free(g->sent);
    free(g->received);
    free(g);
}

/* ---- requests; the lock is held in all that follows, but while bytes are copied ---- */
static int request_new(Seat *seat, Request request)
{
    for (int i = 0; i < TRANSPORT_REQUESTS; i++)
        if (seat->request[i].kind == FREE) {
            seat->request[i] = request;
            if (i >= seat->top) seat->top = i + 1;
            return i;
        }
    stop_world(__FILE__, __LINE__, "more than %d messages under way", TRANSPORT_REQUESTS);
}

static void request_free(Seat *seat, int i)
{
    seat->request[i].kind = FREE;
    while (seat->top > 0 && seat->request[seat->top - 1].kind == FREE) seat->top--;
}

static Slot *request_slot(const Request *r)
{
    return &r->group->meeting->slot[r->number % SLOTS];
}

static bool request_done(const Request *r)
{
    return r->kind == COLLECTIVE ? request_slot(r)->done >= r->number : r->done;
}

static void wake_all(Job *job, const Meeting *m)
{
    for (int i = 0; i < m->count; i++) pthread_cond_signal(&job->seat[m->rank[i]].wake);
}

static void collective_copy(const Request *r)
{
    const Meeting *m = r->group->meeting;
    for (int i = 0; i < m->count; i++) {
        const Part *from = &request_slot(r)->part[i];
        size_t      at   = from->in_at ? from->in_at[r->group->me] : 0;
        size_t   bytes   = from->in_at ? from->in_at[r->group->me + 1] - at : from->bytes;
        char     *out    = r->out + (r->out_at ? r->out_at[i] : (size_t)i * r->bytes);
        size_t   room    = r->out_at ? r->out_at[i + 1] - r->out_at[i] : r->bytes;
        CHECK(bytes == room, "rank %d sends %zu bytes where rank %d expects %zu", m->rank[i], bytes,
              m->rank[r->group->me], room);
        if (bytes > 0 && out != from->in + at) memcpy(out, from->in + at, bytes);
    }
}

/* Each mover returns true where it moved something. */
static bool collective_move(Job *job, Request *r)
{
    Meeting *m    = r->group->meeting;
    Slot    *slot = request_slot(r);
    if (r->done || slot->arrived < m->count) return false;
    pthread_mutex_unlock(&job->lock);
    collective_copy(r);                               /* the slot stays as it is until I too have copied */
    pthread_mutex_lock(&job->lock);
    r->done = true;
    slot->part[r->group->me].stage = COPIED;
    if (++slot->copied == m->count) {
        slot->arrived = slot->copied = 0;
        slot->done    = r->number;
        for (int i = 0; i < m->count; i++) slot->part[i].stage = AWAY;
        wake_all(job, m);
    }
    return true;
}

static bool message_move(Job *job, Request *r)
{
    if (r->done) return false;
    Seat *from = &job->seat[r->group->meeting->rank[r->peer]];
    for (int i = 0; i < from->top; i++) {
        Request *s = &from->request[i];
        if (s->kind != SEND || s->group->meeting != r->group->meeting || s->peer != r->group->me ||
            s->number != r->number)
            continue;
        CHECK(s->bytes == r->bytes, "rank %d sends %zu bytes where rank %d expects %zu", from->transport.rank,
              s->bytes, r->group->meeting->rank[r->group->me], r->bytes);
        pthread_mutex_unlock(&job->lock);
        if (r->bytes > 0) memcpy(r->out, s->in, r->bytes);
        pthread_mutex_lock(&job->lock);
        s->done = r->done = true;
        pthread_cond_signal(&from->wake);
        return true;
    }
    return false;
}

static bool seat_move(Seat *seat)
{
    bool moved = false;
    for (int i = 0; i < seat->top; i++) {
        Request *r = &seat->request[i];
        if (r->kind == COLLECTIVE) moved |= collective_move(seat->job, r);
        if (r->kind == RECV) moved |= message_move(seat->job, r);
    }
    return moved;
}

/* The rank which has left and without which the request cannot end, or -1. */
static int request_gone(const Job *job, const Request *r)
{
    const Meeting *m = r->group->meeting;
    if (r->kind != COLLECTIVE) return job->seat[m->rank[r->peer]].left ? m->rank[r->peer] : -1;
    for (int i = 0; i < m->count; i++)
        if (job->seat[m->rank[i]].left && request_slot(r)->part[i].stage != COPIED)
            return m->rank[i];
    return -1;
}

/* ---- the transport ---- */
static int collective_begin(Transport *t, Group *g, Request request, Part part)
{
    Seat *seat = t->self;
    pthread_mutex_lock(&seat->job->lock);
    request.kind   = COLLECTIVE;
    request.group  = g;
    request.number = g->number++;
    Slot *slot = request_slot(&request);
    CHECK(slot->done == request.number - SLOTS, "more than %d collectives of one group under way", SLOTS);
    slot->part[g->me] = part;
    int made = request_new(seat, request);
    if (++slot->arrived == g->meeting->count) wake_all(seat->job, g->meeting);
    pthread_mutex_unlock(&seat->job->lock);
    return made;
}

static int threads_all_gather(Transport *t, Group *g, void *out, const void *in, size_t bytes)
{
    return collective_begin(t, g, (Request){ .out = out, .bytes = bytes },
                            (Part){ ARRIVED, in, NULL, bytes });
}

static int threads_all_to_all(Transport *t, Group *g, void *out, const size_t *out_at, const void *in,
                              const size_t *in_at)
{
    return collective_begin(t, g, (Request){ .out = out, .out_at = out_at }, (Part){ ARRIVED, in, in_at, 0 });
}

static int message_begin(Transport *t, Request request)
{
    Seat *seat = t->self;
    Job  *job  = seat->job;
    pthread_mutex_lock(&job->lock);
    int made = request_new(seat, request);
    pthread_cond_signal(&job->seat[request.group->meeting->rank[request.peer]].wake);
    pthread_mutex_unlock(&job->lock);
    return made;
}

static int threads_send(Transport *t, Group *g, const void *data, size_t bytes, int to)
{
    long number = g->sent[to]++;
    return message_begin(t, (Request){ SEND, g, number, to, .in = data, .bytes = bytes });
}

static int threads_recv(Transport *t, Group *g, void *data, size_t bytes, int from)
{
    long number = g->received[from]++;
    return message_begin(t, (Request){ RECV, g, number, from, .out = data, .bytes = bytes });
}

static void threads_wait(Transport *t, int request)
{
    Seat    *seat = t->self;
    Job     *job  = seat->job;
    Request *r    = &seat->request[request];
    pthread_mutex_lock(&job->lock);
    while (!request_done(r)) {
        if (seat_move(seat)) continue;
        int gone = request_gone(job, r);
        CHECK(gone < 0, "waits for rank %d, which has ended: %s", gone,
              job->seat[gone].status == OK ? "it did all it had to do" : job->seat[gone].text);
        pthread_cond_wait(&seat->wake, &job->lock);
    }
    request_free(seat, request);
    pthread_mutex_unlock(&job->lock);
}

static void threads_poll(Transport *t)
{
    Seat *seat = t->self;
    pthread_mutex_lock(&seat->job->lock);
    seat_move(seat);
    pthread_mutex_unlock(&seat->job->lock);
}

static void threads_abort(Transport *t, int exit_code)
{
    (void)t;
    _exit(exit_code);
}

static void threads_close(Transport *t)
{
    (void)t;                                          /* the seat goes with the job */
}

/* ---- the job ---- */
static void *seat_run(void *context)
{
    Seat *seat = context;
    Job  *job  = seat->job;
    place()->rank = seat->transport.rank;
    Status status = job->body(&seat->transport, job->context);
    pthread_mutex_lock(&job->lock);
    seat->status = status;
    snprintf(seat->text, sizeof seat->text, "%s", status == OK ? "" : fail_text());
    seat->left = true;
    for (int r = 0; r < job->ranks; r++)              /* who waits for me waits in vain */
        pthread_cond_signal(&job->seat[r].wake);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

static void seat_open(Job *job, int rank)
{
    Seat *seat = &job->seat[rank];
    seat->job  = job;
    pthread_cond_init(&seat->wake, NULL);
    seat->transport = (Transport){
        .abi = TRANSPORT_ABI, .name = "threads", .rank = rank, .size = job->ranks, .self = seat,
        .group_open = threads_group_open, .group_close = threads_group_close,
        .all_gather = threads_all_gather, .all_to_all = threads_all_to_all,
        .send = threads_send, .recv = threads_recv, .wait = threads_wait, .poll = threads_poll,
        .abort = threads_abort, .close = threads_close,
    };
}

static Status job_status(const Job *job)
{
    for (int r = 0; r < job->ranks; r++)
        if (job->seat[r].status != OK) return fail(job->seat[r].status, "%s", job->seat[r].text);
    return OK;
}

Status transport_threads_run(int ranks, RankBody *body, void *context)
{
    Job job = { .lock = PTHREAD_MUTEX_INITIALIZER, .ranks = ranks, .body = body, .context = context };
    job.seat = calloc((size_t)ranks, sizeof *job.seat);
    if (!job.seat) return fail(NO_MEMORY, "no memory for %d ranks", ranks);
    for (int r = 0; r < ranks; r++) seat_open(&job, r);
    for (int r = 0; r < ranks; r++)
        CHECK(pthread_create(&job.seat[r].thread, NULL, seat_run, &job.seat[r]) == 0,
              "no thread for rank %d of %d; ask for fewer with --ranks", r, ranks);
    for (int r = 0; r < ranks; r++) pthread_join(job.seat[r].thread, NULL);

    Status status = job_status(&job);
    for (int r = 0; r < ranks; r++) pthread_cond_destroy(&job.seat[r].wake);
    while (job.meetings)                              /* of ranks which failed before they closed them */
        meeting_free(&job, job.meetings);
    free(job.seat);
    return status;
}
