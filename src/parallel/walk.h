#ifndef PARALLEL_WALK_H
#define PARALLEL_WALK_H
/* The only loop over units. A slot holds what one (chunk, micro-batch) in flight keeps: its batch, its flows, its units' saves. */
#include "parallel/buckets.h"

typedef struct {
    Arena     flight;                 /* a part of the rank's flight arena */
    Batch     batch;
    Flow      in, out;                /* what the chunk takes and makes: on flight */
    UnitSave *save;                   /* by unit of the chunk */
} Slot;

typedef struct {
    const Stage *stage;
    Buckets *buckets;
    Run      run;                     /* as for every unit; batch, flight, keep are the slot's */
    bool     defer;                   /* weight gradients come later: what they read is kept in the slot, not in scratch */
    Slot    *slot[CHUNKS_MAX];
    int      slots[CHUNKS_MAX];
    Flow     turn[2];                 /* gradients between units of a chunk, on scratch below the mark */
} Walk;

typedef struct { const Stage *stage; Buckets *buckets; Run run; bool defer; const int *slots;
                 const LoaderShape *batch;
                 Arena *flight, *host;
                 const size_t *slot_bytes;         /* of a slot of each chunk; NULL: dry, to be found */
} WalkSetup;
void walk_open (Walk *walk, const WalkSetup *setup);
void walk_close(Walk *walk);
size_t walk_slot_bytes(const Walk *walk, int chunk);              /* the most a slot of the chunk has used */

Slot *walk_slot(Walk *walk, int chunk, int slot);
void  walk_begin(Walk *walk, int chunk, int slot);                /* empties the slot and makes its `in` (none for the first chunk) */
void  walk_forward(Walk *walk, int chunk, int slot);
/* dx: where the gradient of `in` goes (ignored by the first chunk); dy: of `out` (ignored by the last) */
void  walk_backward_input (Walk *walk, int chunk, int slot, Flow dx, Flow dy);
void  walk_backward_weight(Walk *walk, int chunk, int slot);      /* nothing where weights were done at once */
#endif
