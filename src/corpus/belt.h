#ifndef CORPUS_BELT_H
#define CORPUS_BELT_H
/* Slots that go round: one thread fills slot after slot, `workers` threads work on them, and the caller takes them in the
 * order in which they were filled. What lies in a slot is the user's, by its number; a slot belongs to one side at a time.
 *
 *     Belt *belt;
 *     TRY(belt_open(&belt, &plan));                               what it points at outlives the belt
 *     for (int slot; (slot = belt_next(belt)) >= 0; ) ...         yours until the next call
 *     belt_close(belt);                                           at any time                                          */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { BELT_SLOTS_EACH = 2, BELT_SLOTS_MORE = 2 };

typedef struct {
    int     workers, slots;                                     /* slots: belt_slots(workers) keep all busy */
    int64_t weight_most;                                        /* of all that is under way; one slot alone may be heavier */
    void   *context;
    bool  (*fill)(void *context, int slot, int64_t *weight);    /* by the filling thread; false: the end, nothing is in it */
    void  (*work)(void *context, int worker, int slot);
} BeltPlan;

typedef struct Belt Belt;
static inline int belt_slots(int workers) { return BELT_SLOTS_EACH * workers + BELT_SLOTS_MORE; }
Status belt_open (Belt **belt, const BeltPlan *plan);
int    belt_next (Belt *belt);                                  /* -1: the end. The slot of before goes back */
void   belt_close(Belt *belt);                                  /* NULL is fine; no call of fill or work comes after it */
#endif
