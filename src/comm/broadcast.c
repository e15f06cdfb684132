/* A broadcast of bytes: rank r receives them from r without its lowest bit, and sends them to r with one more
 * bit below that. */
#include "comm/broadcast.h"
#include <stdlib.h>
#include "comm/comm_internal.h"
#include "comm/start.h"

static void tree_send(Comm *world, void *data, uint64_t bytes)
{
    int bit = 1;
    while (bit < world->size && !(world->rank & bit)) bit *= 2;
    if (world->rank) comm_recv_bytes(world, data, bytes, world->rank - bit);       /* <-> world: recv */
    for (bit /= 2; bit > 0; bit /= 2)
        if (world->rank + bit < world->size)
            comm_send_bytes(world, data, bytes, world->rank + bit);       /* <-> world: send */
}

Status broadcast_bytes(Comm *world, Status mine, char **data, size_t *bytes)
{
    if (world->size == 1 || world->dry) return mine;
    TRY(agree(world, mine));
    uint64_t count = *bytes;
    tree_send(world, &count, sizeof count);                                       /* <-> world: broadcast */
    char    *whole = world->rank == 0 ? *data : malloc(count + 1);
    Status   room  = whole || !count ? OK : fail(NO_MEMORY, "no memory for %llu bytes that rank 0 has read",
                                                 (unsigned long long)count);
    room = agree(world, room);
    if (room == OK && count) tree_send(world, whole, count);
    if (world->rank == 0) return room;
    if (room == OK) *data = whole, *bytes = count;
    else            free(whole);
    return room;
}

Status broadcast_bytes_at_start(Transport *transport, Status mine, char **data, size_t *bytes)
{
    Comm  *world  = NULL;
    Status status = comm_world(&world, transport);
    if (status == OK) status = broadcast_bytes(world, mine, data, bytes);
    start_end();
    comm_close(world);
    return status;
}
