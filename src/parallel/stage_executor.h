#ifndef PARALLEL_STAGE_EXECUTOR_H
#define PARALLEL_STAGE_EXECUTOR_H
/* Runs the units of one chunk, forward or backward, for one micro-batch: the only loops over units. It knows
 * activation slots, gathered weights and scratch, but no messages of the pipeline (parallel/pipeline.c does).
 *
 * An activation slot holds what one (chunk, micro-batch) in flight keeps between forward and backward: its
 * batch, its input and output, and the tensors its units save. All chunks share the slots, each of which
 * therefore has the bytes of the largest chunk. The schedule says how many are needed. */
#include "parallel/buckets.h"

typedef struct {
    Arena     activations;            /* a part of the rank's activations arena */
    Batch     batch;                  /* where its tensors are computed with */
    /* input and output of the chunk, [t, C], on activations; no input in the first chunk */
    Hidden    in, out;
    Hidden   *input;                  /* of each unit that begins a recomputed group; owned */
    UnitSave *save;                   /* one per unit of the chunk, room for the longest; owned */
    /* bytes of activations after forward; what is above was saved for backward_weight */
    size_t    forward_bytes;
} ActivationSlot;

typedef struct {
    const Stage *stage;
    Buckets *buckets;
    /* common to all units; batch, activations and wgrad_saved are set for each slot */
    ExecContext ctx;
    /* weight gradients are computed later: what they read stays in the slot, not in scratch */
    bool     defer;
    /* the micro-batch that runs is the last of its chunk: its weight gradients complete those of the step */
    bool     final;
    /* the unit whose weights are read first after the chunk that runs; -1: none, or they change before */
    int64_t  next_unit;
    Recompute recompute;
    /* saves of one group of recomputed units, during its forward and then during its backward */
    Arena   *recomputed;
    ActivationSlot *slot;             /* [slots], owned */
    int      slots;
    /* gradients between units of a chunk, used in turn; at the bottom of scratch */
    Hidden   unit_grad[2];
} StageExecutor;

typedef struct {
    const Stage *stage;
    Buckets *buckets;
    ExecContext ctx;
    bool defer;
    Recompute recompute;
    int slots;
    bool forward_alone;               /* no gradients between units */
    const LoaderConfig *batch;        /* sizes of a micro-batch */
    Arena *activations, *recomputed, *batches;
    /* bytes of a slot; a dry run, which measures them, passes 0 */
    size_t slot_bytes;
} StageExecutorSetup;

/* Pushes all slots on `activations`, their batches on `batches`. Opens nothing that communicates. Memory
 * that is refused is a CHECK. */
void stage_executor_open (StageExecutor *executor, const StageExecutorSetup *setup);
void stage_executor_close(StageExecutor *executor);

/* Bytes that the fullest slot has used so far, and the part of them that backward_input saved for
 * backward_weight (0 unless weight gradients are deferred). A dry run sizes the slots by the first. */
size_t stage_executor_slot_bytes (const StageExecutor *executor);
size_t stage_executor_wgrad_bytes(const StageExecutor *executor);

ActivationSlot *stage_executor_slot(StageExecutor *executor, int slot);
/* Empties the slot for a micro-batch of the chunk and allocates its input, which the caller then fills: with
 * a message, or a copy of the previous chunk's output. */
void  stage_executor_begin  (StageExecutor *executor, int chunk, int slot);
/* The unit of the chunk whose weights its forward, or its backward, reads first; -1: none. */
int64_t stage_executor_first_read(const StageExecutor *executor, int chunk, bool forward);
/* Forward of all units of the chunk.  <-> tp cp, and dp+cp under ZeRO 3 */
void  stage_executor_forward(StageExecutor *executor, int chunk, int slot);
/* Backward in reverse order, each group of recomputed units after another forward of it. dx receives the
 * gradient of the slot's input (ignored by the first chunk); dy is the gradient of its output (ignored by the
 * last). Unless deferred, weight gradients are computed here too.
 * <-> tp cp, dp+cp under ZeRO 2, 3 */
void  stage_executor_backward_input (StageExecutor *executor, int chunk, int slot, Hidden dx, Hidden dy);
/* The deferred weight gradients; does nothing where they were not deferred.  <-> tp, dp+cp under ZeRO 2, 3 */
void  stage_executor_backward_weight(StageExecutor *executor, int chunk, int slot);
#endif
