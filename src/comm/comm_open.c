/* Opening and closing of comms. All memory of a comm is allocated here, so that communication during a
 * step allocates nothing. */
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "comm/start.h"

static void *make(size_t count, size_t bytes, const char *name)
{
    void *memory = calloc(count, bytes);
    CHECK(memory, "no memory for comm %s", name);
    return memory;
}

static Comm *comm_make(Transport *transport, const char *name, const int *ranks, int count)
{
    size_t n    = (size_t)count;
    Comm  *comm = make(1, sizeof *comm, name);
    *comm = (Comm){ .transport = transport, .size = count, .rank = -1,
        .dry     = transport->kind == TRANSPORT_DRY,
        .ranks   = make(n, sizeof *comm->ranks, name),   .received_from = make(n, sizeof(long), name),
        .sent_to = make(n, sizeof *comm->sent_to, name), .word          = make(n, sizeof *comm->word, name) };
    snprintf(comm->name, sizeof comm->name, "%s", name);
    for (int r = 0; r < count; r++) {
        CHECK(r == 0 || ranks[r] > ranks[r - 1], "comm %s: ranks must ascend", name);
        comm->ranks[r] = ranks[r];
        if (ranks[r] == transport->rank) comm->rank = r;
    }
    CHECK(comm->rank >= 0, "comm %s: rank %d opens it but is not among its ranks", name, transport->rank);
    return comm;
}

/* Opens the transports' groups, which waits for the other members; the heartbeat shows the wait to the
 * watchdog. A comm of one rank needs no group. Control and data have one each, so that their collectives need
 * no common order. */
static Comm *comm_join(Comm *comm)
{
    if (comm->size == 1) return comm;
    heartbeat_enter(comm->heartbeat, comm->name, "opening", 0, comm->ranks, comm->size);
    comm->control = comm->transport->group_open(comm->transport, comm->ranks, comm->size);
    if (comm->control)
        comm->data_group = comm->data->group_open(comm->data, comm->transport, comm->ranks, comm->size,
                                                  comm->sum_group, comm->name);
    heartbeat_leave(comm->heartbeat);
    CHECK(comm->data_group, "no memory for comm %s, a group of %d ranks", comm->name, comm->size);
    return comm;
}

Comm *comm_world_sums(Transport *transport, int sum_group)
{
    int *ranks = make((size_t)transport->size, sizeof *ranks, "world");
    for (int r = 0; r < transport->size; r++) ranks[r] = r;
    Comm *world = comm_make(transport, "world", ranks, transport->size);
    free(ranks);
    world->world     = true;
    world->sum_group = sum_group;
    world->data      = transport->data ? transport->data : host_data_open(transport);
    world->pending   = make(COMM_PENDING, sizeof *world->pending, "world");
    world->recorder  = make(1, sizeof *world->recorder, "world");
    world->heartbeat = heartbeat_open(world->recorder);
    CHECK(world->data, "no memory for the data transport");
    recorder_open(world->recorder, world->data->is_complete, world->data);
    if (world->dry) return comm_join(world);
    thread_context()->rank = transport->rank;
    /* A rank that died before this point would block the others in their first collective, before a
     * watchdog can watch them. watchdog_open ends this time limit. */
    start_begin("the first synchronization of all ranks");
    return comm_join(world);
}

Comm *comm_world(Transport *transport) { return comm_world_sums(transport, COMM_SUM_GROUP); }

Comm *comm_open(Comm *world, const char *name, const int *ranks, int count)
{
    Comm *comm = comm_make(world->transport, name, ranks, count);
    comm->heartbeat = world->heartbeat;
    comm->data      = world->data;
    comm->pending   = world->pending;
    comm->recorder  = world->recorder;
    comm->sum_group = world->sum_group;
    return comm_join(comm);
}

Comm *comm_open_axes(Comm *world, const Mesh *mesh, int axes)
{
    /* The order of the names, which traces and goldens show, not that of the ranks. */
    static const struct { int axis; const char *name; } axis[] = {
        { AXIS_TP, "tp" }, { AXIS_ETP, "etp" }, { AXIS_EP, "ep" }, { AXIS_EDP, "edp" }, { AXIS_DP, "dp" },
        { AXIS_CP, "cp" }, { AXIS_PP, "pp" } };
    char name[HEARTBEAT_NAME] = "";
    for (size_t i = 0; i < COUNT(axis); i++)
        if (axes & axis[i].axis) message_item(name, sizeof name, "+", "%s", axis[i].name);
    int count = mesh_group(mesh, axes, NULL), *ranks = make((size_t)count, sizeof *ranks, name);
    mesh_group(mesh, axes, ranks);
    Comm *comm = comm_open(world, name, ranks, count);
    free(ranks);
    return comm;
}

void comm_close(Comm *comm)
{
    if (!comm) return;
    if (comm->data_group) comm->data->group_close(comm->data, comm->data_group);
    if (comm->control) comm->transport->group_close(comm->transport, comm->control);
    recorder_leave(comm->recorder, comm->name);
    free(comm->ranks);
    free(comm->sent_to);
    free(comm->received_from);
    free(comm->word);
    if (comm->world) {
        heartbeat_close(comm->heartbeat);
        recorder_close(comm->recorder);
        free(comm->recorder);
        free(comm->pending);
        if (comm->data != comm->transport->data) comm->data->close(comm->data);
    }
    free(comm);
}

int  comm_rank(const Comm *comm)                 { return comm->rank; }
int  comm_size(const Comm *comm)                 { return comm->size; }
bool comm_dry (const Comm *comm)                 { return comm->dry; }
int  comm_world_rank(const Comm *comm, int rank) { return comm->ranks[rank]; }
