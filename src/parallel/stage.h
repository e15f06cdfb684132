#ifndef PARALLEL_STAGE_H
#define PARALLEL_STAGE_H
/* Which units a pipeline stage holds. With p stages of v chunks there are p v virtual stages; chunk c of
 * stage i is virtual stage c p + i, as in Megatron-LM's interleaved schedule (arXiv 2104.04473). The
 * transformer blocks are divided evenly among the virtual stages; where they do not divide, the first ones
 * get one more (--pp refuses that). The embedding is in the first virtual stage, the head in the last. */
#include "model/model_config.h"
#include "parallel/schedule.h"

typedef struct {
    int     stages, stage, chunks;                        /* p; this stage, from 0; v */
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
 * nothing but their input. */
RecomputeGroup stage_recompute_group(const Stage *stage, const Recompute *recompute, int64_t layers,
                                     int chunk, int64_t i);

/* BAD_OPTION: more chunks than CHUNKS_MAX, or fewer blocks than virtual stages. */
Status stage_make(Stage *stage, const ModelConfig *config, int stages, int index, int chunks);
bool   stage_holds(const Stage *stage, int64_t unit);
/* the chunk with the embedding: it receives no activations */
bool   stage_is_first(const Stage *stage, int chunk);
/* the chunk with the head: it sends no activations */
bool   stage_is_last (const Stage *stage, int chunk);
#endif
