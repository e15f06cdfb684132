/* Opens the channels of a rank. Opening a communicator waits for the other rank, so neighbours must open
 * theirs in an order that fits. */
#include "parallel/channels.h"

#include <stdio.h>

static bool is_used(const ScheduleShape *shape, int from, int to, bool gradients)
{
    for (int c = 0; c < shape->chunks; c++)
        if ((gradients ? schedule_before : schedule_after)(shape, from, c) == to) return true;
    return false;
}

static void channel_open(Channels *channels, Comm *world, const Mesh *mesh, int from, int to, bool gradients)
{
    bool out = from == mesh->at.pp;
    MeshSize there = mesh->at;
    char name[32];
    there.pp = out ? to : from;
    int mine = mesh->rank, theirs = mesh_rank(mesh, there);
    int pair[2] = { mine < theirs ? mine : theirs, mine < theirs ? theirs : mine };
    Channel *channel = &channels->channel[channels->count++];
    snprintf(name, sizeof name, "pp %s %d-%d", gradients ? "backward" : "forward", from, to);
    *channel = (Channel){ comm_open(world, name, pair, 2), there.pp, gradients, out };
}

/* Stage a and the next one share edge a, the last stage and stage 0 the last edge. Even stages begin with the
 * edge to the next stage, odd ones with that to the previous one: so each edge is the first of both its
 * stages, or the second of both, except around an odd stage 0, where one waits for the other. No rank waits
 * for more than two others. */
void channels_open(Channels *channels, Comm *world, const Mesh *mesh, const ScheduleShape *shape)
{
    int p = shape->stages, stage = mesh->at.pp, edges = p == 1 ? 0 : p == 2 ? 1 : 2;
    *channels = (Channels){ .count = 0 };
    for (int i = 0; i < edges; i++) {
        int a = (stage % 2 == 0) == (i == 0) ? stage : (stage + p - 1) % p, b = (a + 1) % p;
        for (int gradients = 0; gradients < 2; gradients++) {
            if (is_used(shape, a, b, gradients)) channel_open(channels, world, mesh, a, b, gradients);
            if (is_used(shape, b, a, gradients)) channel_open(channels, world, mesh, b, a, gradients);
        }
    }
}

void channels_close(Channels *channels)
{
    for (int i = 0; i < channels->count; i++) comm_close(channels->channel[i].comm);
    channels->count = 0;
}

Comm *channels_find(const Channels *channels, const ScheduleRow *row)
{
    bool gradients = row->verb == SEND_GRAD || row->verb == RECV_GRAD;
    bool out       = row->verb == SEND || row->verb == SEND_GRAD;
    for (int i = 0; i < channels->count; i++) {
        const Channel *c = &channels->channel[i];
        if (c->peer == row->peer && c->gradients == gradients && c->out == out) return c->comm;
    }
    stop_world(__FILE__, __LINE__, "no channel for %s with stage %d", schedule_verb_name(row->verb),
               row->peer);
}
