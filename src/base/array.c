/* The one rule by which arrays and buffers grow. */
#include "base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_LEAST = 4 };      /* of an array that has any: a smaller one would be grown again at once */

/* The largest value of a signed integer of this many bytes; unsigned ones stop there as well. */
static uint64_t most_of(size_t bytes) { return UINT64_MAX >> (64 - 8 * bytes) >> 1; }

Status array_grow(void *items, size_t width, void *room, size_t room_bytes, uint64_t wanted)
{
    uint64_t most = most_of(room_bytes), most_items = PTRDIFF_MAX / width;
    if (most > most_items) most = most_items;
    uint64_t next  = wanted < most - wanted / 2 ? wanted + wanted / 2 : most;
    void    *grown = NULL;
    if (next < ITEMS_LEAST) next = ITEMS_LEAST;
    if (wanted <= most) {
        memcpy(&grown, items, sizeof grown);
        grown = realloc(grown, (size_t)next * width);
    }
    if (!grown) return fail(NO_MEMORY, "no memory for %" PRIu64 " items of %zu bytes", wanted, width);
    memcpy(items, &grown, sizeof grown);
    /* Through a copy of its own type: the bytes of a number are not in the same order on every machine. */
    switch (room_bytes) {
    case 4: memcpy(room, &(uint32_t){ (uint32_t)next }, 4); break;
    case 8: memcpy(room, &next, 8); break;
    default: CHECK(0, "an array whose room is a number of %zu bytes", room_bytes);
    }
    return OK;
}
