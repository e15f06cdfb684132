#ifndef PARALLEL_STAGE_H
#define PARALLEL_STAGE_H
/* Which units a pipeline stage holds: the embedding in the first virtual stage, the head in the last one,
 * with multi-token prediction, and
 * transformer blocks (layers) in all of them, divided as a StageSplit says. Which virtual stages a stage has
 * is the schedule's shape (parallel/schedule.h). Checkpoints do not depend on any of this. */
#include "parallel/stage_split.h"

typedef struct {
    int     stages, stage, chunks;                        /* p; this stage, from 0; v */
    int     virtual_stage[CHUNKS_MAX];                    /* of each chunk */
    int64_t first[CHUNKS_MAX], count[CHUNKS_MAX];         /* units of each chunk: [first, first + count) */
} Stage;

/* What is not kept between forward and backward but computed again: parts of every block (`modules`, of
 * model/unit.h's RecomputeModules), or whole blocks of each chunk, as Megatron-LM's --recompute-method says:
 *     uniform   all blocks, in groups of `layers`, of which only the first one's input is kept
 *     block     each of the first `layers` blocks alone; the others keep everything */
typedef enum { RECOMPUTE_NONE, RECOMPUTE_UNIFORM, RECOMPUTE_BLOCK } RecomputeMethod;
typedef struct { unsigned modules; RecomputeMethod method; int64_t layers; } Recompute;

/* The units [first, end) of a chunk, counted from its first unit, that are recomputed together; first == end:
 * none. */
typedef struct { int64_t first, end; } RecomputeGroup;
/* The group that unit `i` of the chunk is in, or none. Embedding and head are never recomputed: they keep
 * nothing but their input. By `uniform` each depth of multi-token prediction is a group of its own. */
RecomputeGroup stage_recompute_group(const Stage *stage, const Recompute *recompute, int64_t layers,
                                     int chunk, int64_t i);

/* Stage number `index` of the shape. BAD_OPTION with what would work: layers that cannot be divided as
 * `split` says, or a virtual stage without a unit. */
Status stage_make(Stage *stage, const ModelConfig *config, const StageSplit *split,
                  const ScheduleShape *shape, int index);
bool   stage_holds(const Stage *stage, int64_t unit);
/* the chunk with the embedding: it receives no activations */
bool   stage_is_first(const Stage *stage, int chunk);
/* the chunk with the head: it sends no activations */
bool   stage_is_last (const Stage *stage, int chunk);
#endif
