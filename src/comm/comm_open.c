/* Opening and closing of comms. All memory of a comm is allocated here, so that communication during a
 * step allocates nothing. */
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "comm/start.h"

/* Allocates and fills the struct. *out is set even on failure, so that the caller may close what was
 * allocated. */
static Status comm_make(Comm **out, Transport *transport, const char *name, const int *ranks, int count)
{
    size_t n = (size_t)count;
    Comm *comm = calloc(1, sizeof *comm);
    *out = comm;
    if (comm) {
        comm->ranks         = calloc(n, sizeof *comm->ranks);
        comm->sent_to       = calloc(n, sizeof *comm->sent_to);
        comm->received_from = calloc(n, sizeof *comm->received_from);
        comm->word          = calloc(n, sizeof *comm->word);
    }
    if (!comm || !comm->ranks || !comm->sent_to || !comm->received_from || !comm->word)
        return fail(NO_MEMORY, "no memory for comm %s of %d ranks", name, count);

    comm->transport = transport;
    comm->size      = count;
    comm->rank      = -1;
    comm->dry       = strcmp(transport->name, "dry") == 0;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    for (int r = 0; r < count; r++) {
        CHECK(r == 0 || ranks[r] > ranks[r - 1], "comm %s: ranks must ascend", name);
        comm->ranks[r] = ranks[r];
        if (ranks[r] == transport->rank) comm->rank = r;
    }
    CHECK(comm->rank >= 0, "comm %s: rank %d opens it but is not among its ranks", name, transport->rank);
    return OK;
}

/* Opens the transports' groups, which waits for the other members; the heartbeat shows the wait to the
 * watchdog. A comm of one rank needs no group. Control and data have one each, so that their collectives need
 * no common order. */
static Status comm_join(Comm *comm)
{
    if (comm->size == 1) return OK;
    heartbeat_enter(comm->heartbeat, comm->name, "opening", 0, comm->ranks, comm->size);
    comm->control = comm->transport->group_open(comm->transport, comm->ranks, comm->size);
    if (comm->control)
        comm->data_group = comm->data->group_open(comm->data, comm->transport, comm->ranks, comm->size,
                                                  comm->sum_group, comm->name);
    heartbeat_leave(comm->heartbeat);
    if (comm->control && comm->data_group) return OK;
    return fail(NO_MEMORY, "no memory for comm %s, a group of %d ranks", comm->name, comm->size);
}

Status comm_world_sums(Comm **world, Transport *transport, int sum_group)
{
    int *ranks = malloc((size_t)transport->size * sizeof *ranks);
    if (!ranks) return fail(NO_MEMORY, "no memory for %d ranks", transport->size);
    for (int r = 0; r < transport->size; r++) ranks[r] = r;
    Status status = comm_make(world, transport, "world", ranks, transport->size);
    free(ranks);
    TRY(status);
    (*world)->world     = true;
    (*world)->sum_group = sum_group;
    (*world)->data      = transport->data ? transport->data : host_data_open(transport);
    (*world)->pending   = calloc(COMM_PENDING, sizeof *(*world)->pending);
    (*world)->recorder  = malloc(sizeof *(*world)->recorder);
    if (!(*world)->data || !(*world)->pending || !(*world)->recorder)
        return fail(NO_MEMORY, "no memory for the data transport");
    recorder_open((*world)->recorder, (*world)->data->is_complete, (*world)->data);
    if (!(*world)->dry) thread_context()->rank = transport->rank;
    TRY(heartbeat_open(&(*world)->heartbeat, (*world)->recorder));
    /* A rank that died before this point would block the others in their first collective, before a
     * watchdog can watch them. watchdog_open ends this time limit. */
    if (!(*world)->dry) start_begin("the first synchronization of all ranks");
    return comm_join(*world);
}

Status comm_world(Comm **world, Transport *transport)
{
    return comm_world_sums(world, transport, COMM_SUM_GROUP);
}

Status comm_open(Comm **comm, Comm *world, const char *name, const int *ranks, int count)
{
    TRY(comm_make(comm, world->transport, name, ranks, count));
    (*comm)->heartbeat = world->heartbeat;
    (*comm)->data      = world->data;
    (*comm)->pending   = world->pending;
    (*comm)->recorder  = world->recorder;
    (*comm)->sum_group = world->sum_group;
    return comm_join(*comm);
}

Status comm_open_axes(Comm **comm, Comm *world, const Mesh *mesh, int axes)
{
    /* The order of the names, which traces and goldens show, not that of the ranks. */
    static const struct { int axis; const char *name; } axis[] = {
        { AXIS_TP, "tp" }, { AXIS_ETP, "etp" }, { AXIS_EP, "ep" }, { AXIS_EDP, "edp" }, { AXIS_DP, "dp" },
        { AXIS_CP, "cp" }, { AXIS_PP, "pp" } };
    char name[HEARTBEAT_NAME] = "";
    for (size_t i = 0; i < COUNT(axis); i++)
        if (axes & axis[i].axis)
            snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", *name ? "+" : "", axis[i].name);
    int count = mesh_group(mesh, axes, NULL);
    int *ranks = malloc((size_t)count * sizeof *ranks);
    if (!ranks) return fail(NO_MEMORY, "no memory for %d ranks", count);
    mesh_group(mesh, axes, ranks);
    Status status = comm_open(comm, world, name, ranks, count);
    free(ranks);
    return status;
}

void comm_close(Comm *comm)
{
    if (!comm) return;
    if (comm->data_group) comm->data->group_close(comm->data, comm->data_group);
    if (comm->control) comm->transport->group_close(comm->transport, comm->control);
    if (comm->recorder) recorder_leave(comm->recorder, comm->name);
    if (comm->world) heartbeat_close(comm->heartbeat);
    if (comm->world && comm->recorder) recorder_close(comm->recorder), free(comm->recorder);
    if (comm->world && comm->data && comm->data != comm->transport->data) comm->data->close(comm->data);
    free(comm->ranks);
    free(comm->sent_to);
    free(comm->received_from);
    free(comm->word);
    if (comm->world) free(comm->pending);
    free(comm);
}

int  comm_rank(const Comm *comm)                 { return comm->rank; }
int  comm_size(const Comm *comm)                 { return comm->size; }
bool comm_dry (const Comm *comm)                 { return comm->dry; }
int  comm_world_rank(const Comm *comm, int rank) { return comm->ranks[rank]; }
