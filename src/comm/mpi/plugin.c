/* The transport over MPI, compiled once for each MPI library (cmake/mpi.cmake) and loaded by comm/mpi.c.
 * MPI only moves bytes; comm/host_sum.c computes the sums. The plug-in uses nothing of jotun but the
 * struct that it fills. Only the rank's own thread calls it (MPI_THREAD_FUNNELED). */
#include <mpi.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/transport.h"

/* MPI counts are ints. Messages above INT_MAX bytes are counted in larger units: derived types of 2, 4,
 * ... 4096 bytes, of which the largest that divides the size is taken. */
enum { UNITS = 13 };

/* Counts and offsets of one collective in units, which MPI reads until it is complete: [4 count]. Those of
 * a complete one are used again, so that a step allocates nothing. */
typedef struct Counts { struct Counts *next; int at[]; } Counts;

struct Group {
    MPI_Comm comm;
    int      count, me;                               /* members; this rank's index */
    Counts  *unused;                                  /* list, owned */
};

typedef struct {
    MPI_Comm     world;                               /* a duplicate of MPI_COMM_WORLD */
    MPI_Request  request[TRANSPORT_REQUESTS];
    bool         used[TRANSPORT_REQUESTS];
    Counts      *counts[TRANSPORT_REQUESTS];          /* of a collective, back to its group at the end */
    Group       *group[TRANSPORT_REQUESTS];
    int          top;                                 /* requests at this index and above are free */
    MPI_Datatype unit[UNITS];                         /* unit[u] is 2^u bytes */
} MpiState;

TransportPlugin jotun_transport_open;

/* ---- errors: communicators return them (MPI_ERRORS_RETURN), so that the message names rank and call ---- */
/* The line is written only as far as stderr takes it within half a second: a reader that has stopped reading
 * must not keep the job from ending. A regular file and /dev/null are always ready. */
static void line_write(const char *line, size_t bytes)
{
    struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
    while (bytes > 0) {
        int found = poll(&ready, 1, 500);
        if (found < 0 && errno == EINTR) continue;
        if (found <= 0 || !(ready.revents & POLLOUT)) return;
        /* A pipe that is ready takes at least PIPE_BUF bytes without blocking; 512 is its smallest value. */
        ssize_t n = write(STDERR_FILENO, line, bytes < 512 ? bytes : 512);
        if (n < 0 && errno != EINTR) return;
        if (n > 0) line += n, bytes -= (size_t)n;
    }
}

/* MPI_Abort writes a line of its own, in MPICH without a time limit. Where stderr is not read it is
 * written to /dev/null. FORWARD_US: in which the launcher passes on what this rank has printed; an abort
 * may end it before. */
enum { FORWARD_US = 200000 };
static void job_abort(int exit_code)
{
    usleep(FORWARD_US);
    struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
    int nowhere = poll(&ready, 1, 0) == 0 ? open("/dev/null", O_WRONLY) : -1;
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void stop(const char *what, const char *why)
{
    char line[MPI_MAX_ERROR_STRING + 256];
    int  rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int n = snprintf(line, sizeof line, "jotun: rank %d: %s: %s\n", rank, what, why);
    line_write(line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
    job_abort(3);
    abort();
}

/* The name of the failing call is the text of the MUST up to its parenthesis. */
static void must(int code, const char *call)
{
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "", name[64] = "";
    int  length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    stop(name, text);
}
#define MUST(call) must(call, #call)

/* ---- counts and units ---- */
/* 0 where `largest` bytes fit into an int, else the largest u whose unit divides `divisible`. The two
 * ends of a message may choose different units, since MPI compares type signatures, and both are
 * sequences of MPI_BYTE. */
static int unit_for(size_t largest, size_t divisible)
{
    int u = 0;
    if (largest <= INT_MAX) return 0;
    while (u + 1 < UNITS && divisible % ((size_t)2 << u) == 0) u++;
    if (largest >> u > INT_MAX)
        stop("a message", "too large for MPI's counts: it must be divided, or its size made a multiple of "
             "4096 bytes");
    return u;
}

/* Converts n + 1 offsets in elements to n counts and offsets in units, and returns the unit. The bitwise
 * or of the offsets in bytes is divisible by a power of two exactly if all of them are. */
static int units_of(int *counts, int *offsets, const int64_t *at, size_t width, int n)
{
    size_t divisible = 0;
    for (int r = 0; r <= n; r++) divisible |= (size_t)at[r] * width;
    int u = unit_for((size_t)at[n] * width, divisible);
    for (int r = 0; r < n; r++) {
        offsets[r] = (int)((size_t)at[r] * width >> u);
        counts[r]  = (int)((size_t)(at[r + 1] - at[r]) * width >> u);
    }
    return u;
}

/* ---- groups ---- */
static Group *mpi_group_open(Transport *t, const int *ranks, int count)
{
    MpiState   *mpi = t->self;
    Group    *g   = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->count = count;
    MPI_Group world, members;
    MUST(MPI_Comm_group(mpi->world, &world));
    MUST(MPI_Group_incl(world, count, ranks, &members));
    MUST(MPI_Comm_create_group(mpi->world, members, 0, &g->comm));
    MUST(MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_rank(g->comm, &g->me));
    MUST(MPI_Group_free(&members));
    MUST(MPI_Group_free(&world));
    return g;
}

static void mpi_group_close(Transport *t, Group *g)
{
    (void)t;
    MUST(MPI_Comm_free(&g->comm));
    for (Counts *c = g->unused, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(g);
}

static Counts *counts_take(Group *g)
{
    Counts *c = g->unused;
    if (c) g->unused = c->next;
    else   c = calloc(1, sizeof *c + 4 * (size_t)g->count * sizeof *c->at);
    if (!c) stop("a collective", "no memory for its counts");
    return c;
}

/* ---- requests ---- */
static int request_new(MpiState *mpi)
{
    for (int i = 0; i < TRANSPORT_REQUESTS; i++)
        if (!mpi->used[i]) {
            mpi->used[i] = true;
            if (i >= mpi->top) mpi->top = i + 1;
            return i;
        }
    stop("a message", "more than 4096 requests are in progress");
    return -1;
}

/* `in` may be the own part of `out`, which MPI allows only as MPI_IN_PLACE. */
static int mpi_all_gather(Transport *t, Group *g, void *out, const int64_t *at, const void *in, size_t width)
{
    MpiState *mpi = t->self;
    int  made  = request_new(mpi);
    bool mine  = in == (char *)out + (size_t)(at ? at[g->me] : g->me) * width;
    if (!at) {
        int u = unit_for(width, width), count = (int)(width >> u);
        MUST(MPI_Iallgather(mine ? MPI_IN_PLACE : in, count, mpi->unit[u], out, count, mpi->unit[u], g->comm,
                            &mpi->request[made]));
        return made;
    }
    Counts *c = counts_take(g);
    int     u = units_of(c->at, c->at + g->count, at, width, g->count);
    mpi->counts[made] = c;
    mpi->group[made]  = g;
    MUST(MPI_Iallgatherv(mine ? MPI_IN_PLACE : in, c->at[g->me], mpi->unit[u], out, c->at, c->at + g->count,
                         mpi->unit[u], g->comm, &mpi->request[made]));
    return made;
}

static int mpi_all_to_all(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in,
                          const int64_t *in_at, size_t width)
{
    MpiState *mpi  = t->self;
    Counts   *c    = counts_take(g);
    int  made = request_new(mpi), n = g->count, *to_at = c->at + n, *from = c->at + 2 * n;
    int  to_unit   = units_of(c->at, to_at, out_at, width, n);
    int  from_unit = units_of(from, from + n, in_at, width, n);
    mpi->counts[made] = c;
    mpi->group[made]  = g;
    MUST(MPI_Ialltoallv(in, from, from + n, mpi->unit[from_unit], out, c->at, to_at, mpi->unit[to_unit],
                        g->comm, &mpi->request[made]));
    return made;
}

static int mpi_send(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Isend(data, (int)(bytes >> u), mpi->unit[u], to, tag, g->comm, &mpi->request[made]));
    return made;
}

static int mpi_recv(Transport *t, Group *g, void *data, size_t bytes, int from, int tag)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Irecv(data, (int)(bytes >> u), mpi->unit[u], from, tag, g->comm, &mpi->request[made]));
    return made;
}

static bool mpi_test(Transport *t, int request)
{
    MpiState *mpi  = t->self;
    int  done = 0;
    MUST(MPI_Test(&mpi->request[request], &done, MPI_STATUS_IGNORE));
    if (!done) return false;
    if (mpi->counts[request]) {
        Group *g = mpi->group[request];
        mpi->counts[request]->next = g->unused;
        g->unused = mpi->counts[request];
        mpi->counts[request] = NULL;
    }
    mpi->used[request] = false;
    while (mpi->top > 0 && !mpi->used[mpi->top - 1]) mpi->top--;
    return true;
}

/* Yields, and the caller tests again, in place of MPI_Wait, which spins: where ranks outnumber cores, a
 * spinning rank keeps the rank it waits for from running. */
static void mpi_idle(Transport *t, int request)
{
    (void)t, (void)request;
    sched_yield();
}

static void mpi_poll(Transport *t)
{
    MpiState *mpi = t->self;
    int  index, done;
    /* A request that completes here becomes MPI_REQUEST_NULL, for which the later MPI_Test is true. */
    if (mpi->top > 0)
        MUST(MPI_Testany(mpi->top, mpi->request, &index, &done, MPI_STATUS_IGNORE));
}

/* ---- opening, closing, ending the job ---- */
static void mpi_abort(Transport *t, int exit_code)
{
    (void)t;
    job_abort(exit_code);
}

static void mpi_close(Transport *t)
{
    MpiState *mpi = t->self;
    for (int u = 1; u < UNITS; u++) MUST(MPI_Type_free(&mpi->unit[u]));
    MUST(MPI_Comm_free(&mpi->world));
    MPI_Finalize();
    free(mpi);
    free(t);
}

static void units_open(MpiState *mpi)
{
    mpi->unit[0] = MPI_BYTE;
    for (int u = 1; u < UNITS; u++) {
        MUST(MPI_Type_contiguous(1 << u, MPI_BYTE, &mpi->unit[u]));
        MUST(MPI_Type_commit(&mpi->unit[u]));
    }
}

Transport *jotun_transport_open(int *argc, char ***argv, char *error, size_t error_bytes)
{
    int        provided = MPI_THREAD_SINGLE;
    Transport *t   = calloc(1, sizeof *t);
    MpiState       *mpi = calloc(1, sizeof *mpi);
    if (!t || !mpi || MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_FUNNELED) {
        snprintf(error, error_bytes,
                 "MPI_Init_thread failed, or this MPI does not support MPI_THREAD_FUNNELED");
        free(t);
        free(mpi);
        return NULL;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->world));
    MUST(MPI_Comm_set_errhandler(mpi->world, MPI_ERRORS_RETURN));
    for (int i = 0; i < TRANSPORT_REQUESTS; i++) mpi->request[i] = MPI_REQUEST_NULL;
    units_open(mpi);
    *t = (Transport){
        .abi = TRANSPORT_ABI, .kind = TRANSPORT_MPI, .name = MPI_NAME, .self = mpi,
        .group_open = mpi_group_open, .group_close = mpi_group_close,
        .all_gather = mpi_all_gather, .all_to_all = mpi_all_to_all, .send = mpi_send, .recv = mpi_recv,
        .poll = mpi_poll, .test = mpi_test, .idle = mpi_idle, .abort = mpi_abort, .close = mpi_close,
    };
    MUST(MPI_Comm_rank(mpi->world, &t->rank));
    MUST(MPI_Comm_size(mpi->world, &t->size));
    return t;
}
