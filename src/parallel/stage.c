/* The units of a pipeline stage. */
#include "parallel/stage.h"

#include <stdlib.h>

Status stage_make(Stage *stage, const ModelConfig *config, const StageSplit *split,
                  const ScheduleShape *shape, int index)
{
    int virtuals = shape->stages * shape->chunks;
    if (shape->chunks > CHUNKS_MAX)
        return fail(BAD_OPTION,
            "%d model chunks per stage are more than the maximum of %d; use fewer, larger chunks",
            shape->chunks, CHUNKS_MAX);
    int64_t *end = calloc((size_t)virtuals + 1, sizeof *end);         /* layers up to each virtual stage */
    if (!end) return fail(NO_MEMORY, "no memory for %d virtual stages", virtuals);
    Status status = stage_split_layers(end + 1, split, config, shape);
    for (int v = 0; v < virtuals; v++) end[v + 1] += end[v];
    *stage = (Stage){ .stages = shape->stages, .stage = index, .chunks = shape->chunks };
    for (int c = 0; status == OK && c < shape->chunks; c++) {
        int v = stage->virtual_stage[c] = schedule_virtual(shape, index, c);
        int64_t from = end[v] + 1, to = end[v + 1] + 1;               /* layer i is unit i + 1 */
        if (v == 0) from--;                    /* the embedding, unit 0 */
        if (v == virtuals - 1) to = model_units(config);      /* the head and multi-token prediction */
        stage->first[c] = from;
        stage->count[c] = to - from;
    }
    free(end);
    return status;
}

bool stage_holds(const Stage *stage, int64_t unit)
{
    for (int c = 0; c < stage->chunks; c++)
        if (unit >= stage->first[c] && unit < stage->first[c] + stage->count[c]) return true;
    return false;
}

RecomputeGroup stage_recompute_group(const Stage *stage, const Recompute *recompute, int64_t layers,
                                     int chunk, int64_t i)
{
    RecomputeGroup none = { 0, 0 };
    int64_t unit = stage->first[chunk] + i, end = stage->count[chunk];
    int64_t blocks = stage->first[chunk] < 1 ? 1 : 0;                  /* where the chunk's blocks begin */
    if (recompute->method == RECOMPUTE_UNIFORM && unit > layers + 1) return (RecomputeGroup){ i, i + 1 };
    if (recompute->method == RECOMPUTE_NONE || unit < 1 || unit > layers) return none;
    if (stage->first[chunk] + end - 1 > layers) end = layers + 1 - stage->first[chunk];
    if (recompute->method == RECOMPUTE_BLOCK)
        return i - blocks < recompute->layers ? (RecomputeGroup){ i, i + 1 } : none;
    int64_t first = i - (i - blocks) % recompute->layers, last = first + recompute->layers;
    return (RecomputeGroup){ first, last < end ? last : end };
}

bool stage_is_first(const Stage *stage, int chunk) { return stage->virtual_stage[chunk] == 0; }
bool stage_is_last (const Stage *stage, int chunk)
{
    return stage->virtual_stage[chunk] == stage->stages * stage->chunks - 1;
}
