/* The transport over MPI, compiled once for each MPI (cmake/mpi.cmake). MPI only moves bytes; sums are comm's. Uses
 * nothing of jotun but the struct it fills. Only the rank's own thread calls (MPI_THREAD_FUNNELED). */
#include <mpi.h>

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm/transport.h"

enum { UNITS = 13, TAG = 0 };                  /* units of 1, 2, 4 ... 4096 bytes, for counts above INT_MAX */

struct Group {
    MPI_Comm comm;
    int      count, me;
    int     *in_count, *in_at, *out_count, *out_at;   /* of the all-to-all under way, in units */
};

typedef struct {
    MPI_Comm     world;
    MPI_Request  request[TRANSPORT_REQUESTS];
    bool         used[TRANSPORT_REQUESTS];
    int          top;                                 /* requests beyond it are free */
    MPI_Datatype unit[UNITS];
} Mpi;

TransportPlugin jotun_transport_open;

/* ---- errors ---- */
static void stop(const char *what, const char *why)
{
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "jotun: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

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

/* ---- counts are ints in MPI: larger ones are told in larger units ---- */
static int unit_for(size_t largest, size_t divisible)
{
    int u = 0;
    if (largest <= INT_MAX) return 0;
    while (u + 1 < UNITS && divisible % ((size_t)2 << u) == 0) u++;
    if (largest >> u > INT_MAX)
        stop("a message", "too large for MPI's counts: cut it, or make its size a multiple of 4096 bytes");
    return u;
}

/* Offsets in bytes to counts and offsets in units; returns the unit. */
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
    Mpi   *mpi = t->self;
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
static int request_new(Mpi *mpi)
{
    for (int i = 0; i < TRANSPORT_REQUESTS; i++)
        if (!mpi->used[i]) {
            mpi->used[i] = true;
            if (i >= mpi->top) mpi->top = i + 1;
            return i;
        }
    stop("a message", "too many are under way");
    return -1;
}

static int mpi_all_gather(Transport *t, Group *g, void *out, const void *in, size_t bytes)
{
    Mpi *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes), count = (int)(bytes >> u);
    bool mine = in == (char *)out + (size_t)g->me * bytes;
    MUST(MPI_Iallgather(mine ? MPI_IN_PLACE : in, count, mpi->unit[u], out, count, mpi->unit[u], g->comm,
                        &mpi->request[made]));
    return made;
}

static int mpi_all_to_all(Transport *t, Group *g, void *out, const size_t *out_at, const void *in,
                          const size_t *in_at)
{
    Mpi *mpi  = t->self;
    int  made = request_new(mpi);
    int  to   = units_of(g->out_count, g->out_at, out_at, g->count);
    int  from = units_of(g->in_count, g->in_at, in_at, g->count);
    MUST(MPI_Ialltoallv(in, g->in_count, g->in_at, mpi->unit[from], out, g->out_count, g->out_at,
                        mpi->unit[to], g->comm, &mpi->request[made]));
    return made;
}

static int mpi_send(Transport *t, Group *g, const void *data, size_t bytes, int to)
{
    Mpi *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Isend(data, (int)(bytes >> u), mpi->unit[u], to, TAG, g->comm, &mpi->request[made]));
    return made;
}

static int mpi_recv(Transport *t, Group *g, void *data, size_t bytes, int from)
{
    Mpi *mpi  = t->self;
    int  made = request_new(mpi), u = unit_for(bytes, bytes);
    MUST(MPI_Irecv(data, (int)(bytes >> u), mpi->unit[u], from, TAG, g->comm, &mpi->request[made]));
    return made;
}

/* Tests and yields, where MPI_Wait would hold its core: ranks may be more than cores. */
static void mpi_wait(Transport *t, int request)
{
    Mpi *mpi  = t->self;
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
    Mpi *mpi = t->self;
    int  index, done;
    if (mpi->top > 0)                          /* what is done becomes MPI_REQUEST_NULL, and its wait is free */
        MUST(MPI_Testany(mpi->top, mpi->request, &index, &done, MPI_STATUS_IGNORE));
}

/* ---- the job ---- */
static void mpi_abort(Transport *t, int exit_code)
{
    (void)t;
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void mpi_close(Transport *t)
{
    Mpi *mpi = t->self;
    for (int u = 1; u < UNITS; u++) MUST(MPI_Type_free(&mpi->unit[u]));
    MUST(MPI_Comm_free(&mpi->world));
    MPI_Finalize();
    free(mpi);
    free(t);
}

static void units_open(Mpi *mpi)
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
    Mpi       *mpi = calloc(1, sizeof *mpi);
    if (!t || !mpi || MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_FUNNELED) {
        snprintf(error, error_bytes, "MPI_Init_thread failed, or this MPI knows no MPI_THREAD_FUNNELED");
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
