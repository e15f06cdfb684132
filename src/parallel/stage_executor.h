#ifndef PARALLEL_STAGE_EXECUTOR_H
#define PARALLEL_STAGE_EXECUTOR_H
/* The only loop over units. A slot holds what one (chunk, micro-batch) in activations keeps: its batch, its flows, its units' saves. */
#include "parallel/buckets.h"

typedef struct {
    Arena     activations;                 /* a part of the rank's activations arena */
    Batch     batch;
    Flow      in, out;                /* what the chunk takes and makes: on activations */
    UnitSave *save;                   /* by unit of the chunk */
    size_t    forward;                /* bytes of activations after a forward; what is above them backward_weight reads */
} ActivationSlot;

typedef struct {
    const Stage *stage;
    Buckets *buckets;
    ExecContext      ctx;                     /* as for every unit; batch, activations, wgrad_saved are the slot's */
    bool     defer;                   /* weight gradients come later: what they read is kept in the slot, not in scratch */
    ActivationSlot    *slot[CHUNKS_MAX];
    int      slots[CHUNKS_MAX];
    Flow     turn[2];                 /* gradients between units of a chunk, on scratch below the mark */
} StageExecutor;

typedef struct { const Stage *stage; Buckets *buckets; ExecContext ctx; bool defer; const int *slots;
                 const LoaderConfig *batch;
                 Arena *activations, *host;
                 const size_t *slot_bytes;         /* of a slot of each chunk; NULL: dry, to be found */
} StageExecutorSetup;
void stage_executor_open (StageExecutor *executor, const StageExecutorSetup *setup);
void stage_executor_close(StageExecutor *executor);
size_t stage_executor_slot_bytes(const StageExecutor *executor, int chunk);              /* the most a slot of the chunk has used, */
size_t walk_slot_wgrad(const StageExecutor *executor, int chunk);              /* and how much of it input backwards left for weight backwards */

ActivationSlot *stage_executor_slot(StageExecutor *executor, int chunk, int slot);
void  stage_executor_begin(StageExecutor *executor, int chunk, int slot);                /* empties the slot and makes its `in` (none for the first chunk) */
void  stage_executor_forward(StageExecutor *executor, int chunk, int slot);
/* dx: where the gradient of `in` goes (ignored by the first chunk); dy: of `out` (ignored by the last) */
void  stage_executor_backward_input (StageExecutor *executor, int chunk, int slot, Flow dx, Flow dy);
void  stage_executor_backward_weight(StageExecutor *executor, int chunk, int slot);      /* nothing where weights were done at once */
#endif
