/* The transport over MPI, compiled once for each MPI library (cmake/mpi.cmake) and loaded by comm/mpi.c.
 * MPI only moves bytes; comm/collective.c computes the sums. The plug-in uses nothing of jotun but the
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
 * ... 4096 bytes, of which the largest that divides the size is taken. One tag is enough, since messages
 * of a pair match in order. */
enum { UNITS = 13, TAG = 0 };

struct Group {
    MPI_Comm comm;
    int      count, me;                               /* members; this rank's index */
    int     *in_count, *in_at, *out_count, *out_at;   /* [count] of the present all-to-all, in units */
};

typedef struct {
    MPI_Comm     world;                               /* a duplicate of MPI_COMM_WORLD */
    MPI_Request  request[TRANSPORT_REQUESTS];
    bool         used[TRANSPORT_REQUESTS];
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
 * written to /dev/null. */
static void job_abort(int exit_code)
{
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

/* Converts n + 1 offsets in bytes to n counts and offsets in units, and returns the unit. The bitwise or
 * of the offsets is divisible by a power of two exactly if all of them are. */
static int units_of(int *counts, int *offsets, const size_t *at, int n)
{
    size_t divisible = 0;
    for (int r = 0; r <= n; r++) divisible |= at[r];
    int u = unit_for(at[n], divisible);
    for (int r = 0; r < n; r++) {
        offsets[r] = (int)(at[r] >> u);
        counts[r]  = (int)((at[r + 1] - at[r]) >> u);
    }
    return u;
}

/* ---- groups ---- */
static Group *mpi_group_open(Transport *t, const int *ranks, int count)
{
    MpiState   *mpi = t->self;
    size_t n   = (size_t)count;
    Group *g   = calloc(1, sizeof *g);
    int   *all = calloc(4 * n, sizeof *all);
    if (!g || !all) {
        free(g);
        free(all);
        return NULL;
    }
    *g = (Group){ .count = count, .in_count = all, .in_at = all + n,
                  .out_count = all + 2 * n, .out_at = all + 3 * n };
    MPI_Group world, members;
    MUST(MPI_Comm_group(mpi->world, &world));
    MUST(MPI_Group_incl(world, count, ranks, &members));
    MUST(MPI_Comm_create_group(mpi->world, members, TAG, &g->comm));
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
    free(g->in_count);
    free(g);
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

/* `in` may be the own block of `out`, which MPI allows only as MPI_IN_PLACE. */
static int mpi_all_gather(Transport *t, Group *g, void *out, const void *in, size_t bytes)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes), count = (int)(bytes >> u);
    bool mine = in == (char *)out + (size_t)g->me * bytes;
    MUST(MPI_Iallgather(mine ? MPI_IN_PLACE : in, count, mpi->unit[u], out, count, mpi->unit[u], g->comm,
                        &mpi->request[made]));
    return made;
}

static int mpi_all_to_all(Transport *t, Group *g, void *out, const size_t *out_at, const void *in,
                          const size_t *in_at)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi);
    int  to   = units_of(g->out_count, g->out_at, out_at, g->count);
    int  from = units_of(g->in_count, g->in_at, in_at, g->count);
    MUST(MPI_Ialltoallv(in, g->in_count, g->in_at, mpi->unit[from], out, g->out_count, g->out_at,
                        mpi->unit[to], g->comm, &mpi->request[made]));
    return made;
}

static int mpi_send(Transport *t, Group *g, const void *data, size_t bytes, int to)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Isend(data, (int)(bytes >> u), mpi->unit[u], to, TAG, g->comm, &mpi->request[made]));
    return made;
}

static int mpi_recv(Transport *t, Group *g, void *data, size_t bytes, int from)
{
    MpiState *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Irecv(data, (int)(bytes >> u), mpi->unit[u], from, TAG, g->comm, &mpi->request[made]));
    return made;
}

/* Tests and yields in place of MPI_Wait, which spins: where ranks outnumber cores, a spinning rank keeps
 * the rank it waits for from running. */
static void mpi_wait(Transport *t, int request)
{
    MpiState *mpi  = t->self;
    int  done = 0;
    for (;;) {
        MUST(MPI_Test(&mpi->request[request], &done, MPI_STATUS_IGNORE));
        if (done) break;
        sched_yield();
    }
    mpi->used[request] = false;
    while (mpi->top > 0 && !mpi->used[mpi->top - 1]) mpi->top--;
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
        .abi = TRANSPORT_ABI, .name = MPI_NAME, .self = mpi,
        .group_open = mpi_group_open, .group_close = mpi_group_close,
        .all_gather = mpi_all_gather, .all_to_all = mpi_all_to_all, .send = mpi_send, .recv = mpi_recv,
        .wait = mpi_wait, .poll = mpi_poll, .abort = mpi_abort, .close = mpi_close,
    };
    MUST(MPI_Comm_rank(mpi->world, &t->rank));
    MUST(MPI_Comm_size(mpi->world, &t->size));
    return t;
}
