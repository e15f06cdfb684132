/* Bytes of rank 0, of which no other rank knows how many. */
#include "comm/broadcast.h"
#include <stdlib.h>
#include "comm/comm_internal.h"
#include "comm/start.h"

Status broadcast_bytes(Comm *world, Status mine, char **data, size_t *bytes)
{
    if (world->size == 1 || world->dry) return mine;
    TRY(agree(world, mine));
    uint64_t count = *bytes;
    comm_broadcast_bytes(world, &count, sizeof count, 0);                         /* <-> world: broadcast */
    char    *whole = world->rank == 0 ? *data : malloc(count + 1);
    Status   room  = whole || !count ? OK : fail(NO_MEMORY, "no memory for %llu bytes that rank 0 has read",
                                                 (unsigned long long)count);
    room = agree(world, room);
    if (room == OK && count) comm_broadcast_bytes(world, whole, count, 0);
    if (world->rank == 0) return room;
    if (room == OK) *data = whole, *bytes = count;
    else            free(whole);
    return room;
}

void broadcast_same(Comm *world, void *data, size_t bytes)
{
    if (world->size == 1 || world->dry) return;
    comm_broadcast_bytes(world, data, bytes, 0);                                  /* <-> world: broadcast */
}

Status broadcast_bytes_at_start(Transport *transport, Status mine, char **data, size_t *bytes)
{
    Comm  *world  = comm_world(transport);
    Status status = broadcast_bytes(world, mine, data, bytes);
    start_end();
    comm_close(world);
    return status;
}
