/* The transport of the dry run: it moves nothing, and every request is complete at once. A Comm on it
 * counts the same bytes and takes the same scratch memory as on any other transport, which is how the
 * dry run predicts both. One process may open any rank of a world of any size. */
#include "comm/transport.h"

#include <stdlib.h>
#include <unistd.h>

struct Group { int count; };

static Group *dry_group_open(Transport *t, const int *ranks, int count)
{
    (void)t, (void)ranks;
    Group *g = malloc(sizeof *g);
    if (g) g->count = count;
    return g;
}

static void dry_group_close(Transport *t, Group *g)
{
    (void)t;
    free(g);
}

static int dry_all_gather(Transport *t, Group *g, void *out, const int64_t *at, const void *in, size_t width)
{
    (void)t, (void)g, (void)out, (void)at, (void)in, (void)width;
    return 0;
}

static int dry_all_to_all(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in,
                          const int64_t *in_at, size_t width)
{
    (void)t, (void)g, (void)out, (void)out_at, (void)in, (void)in_at, (void)width;
    return 0;
}

static int dry_send(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag)
{
    (void)t, (void)g, (void)data, (void)bytes, (void)to, (void)tag;
    return 0;
}

static int dry_recv(Transport *t, Group *g, void *data, size_t bytes, int from, int tag)
{
    (void)t, (void)g, (void)data, (void)bytes, (void)from, (void)tag;
    return 0;
}

static bool dry_test(Transport *t, int request)    { (void)t, (void)request; return true; }

static void dry_idle(Transport *t, int request)    { (void)t, (void)request; }

static void dry_poll(Transport *t)                 { (void)t; }

static void dry_abort(Transport *t, int exit_code) { (void)t; _exit(exit_code); }

static void dry_close(Transport *t)                { free(t); }

Transport *transport_dry_open(int rank, int size)
{
    Transport *t = malloc(sizeof *t);
    CHECK(t, "no memory for a transport");
    *t = (Transport){
        .abi = TRANSPORT_ABI, .kind = TRANSPORT_DRY, .name = "dry", .rank = rank, .size = size,
        .group_open = dry_group_open, .group_close = dry_group_close,
        .all_gather = dry_all_gather, .all_to_all = dry_all_to_all, .send = dry_send, .recv = dry_recv,
        .poll = dry_poll, .test = dry_test, .idle = dry_idle, .abort = dry_abort, .close = dry_close,
    };
    return t;
}
