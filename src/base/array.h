#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H
/* Growable arrays. Their owner keeps the items, a count, and the room: how many items there is memory for.
 * All begin as 0, count and room are integers of any type, and the owner frees the items.
 *
 *     struct { Word *word; int32_t words, room; } d = { 0 };
 *     TRY(ARRAY_RESERVE(d.word, d.room, d.words + 1));
 *     d.word[d.words++] = word;
 *     free(d.word);
 *
 * The items may move when the array grows. It grows by half of what is needed, so that adding n items one
 * after another costs O(n). */
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Makes room for `wanted` items in all. NO_MEMORY leaves the array as it was. */
#define ARRAY_RESERVE(items, room, wanted) \
    ((uint64_t)(wanted) <= (uint64_t)(room) \
         ? OK : array_grow(&(items), sizeof *(items), &(room), sizeof(room), (uint64_t)(wanted)))
/* The same for callers that return no Status: no memory ends the job. */
#define ARRAY_RESERVE_OR_STOP(items, room, wanted) \
    CHECK(ARRAY_RESERVE(items, room, wanted) == OK, "%s", fail_text())

/* How many items an array has whose length the compiler knows. */
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* items: the address of a pointer to items of `width` bytes; room: that of an integer of room_bytes bytes. */
Status array_grow(void *items, size_t width, void *room, size_t room_bytes, uint64_t wanted);
#endif
