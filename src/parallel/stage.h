#ifndef PARALLEL_STAGE_H
#define PARALLEL_STAGE_H
/* Which units a pipeline stage holds. Blocks are dealt evenly to the p v virtual stages (the first ones get one more where they do
 * not divide); the embedding stands before the first, the head after the last. Chunk c of stage i is virtual stage c p + i. */
#include "model/model_config.h"
#include "parallel/schedule.h"

typedef struct {
    int     stages, stage, chunks;
    int64_t first[CHUNKS_MAX], count[CHUNKS_MAX];         /* units of each chunk */
} Stage;

Status stage_make(Stage *stage, const ModelConfig *config, int stages, int index, int chunks);   /* BAD_OPTION: fewer blocks than virtual stages */
bool   stage_holds(const Stage *stage, int64_t unit);
bool   stage_is_first(const Stage *stage, int chunk);     /* the chunk with the embedding */
bool   stage_is_last (const Stage *stage, int chunk);     /* the chunk with the head */
#endif
