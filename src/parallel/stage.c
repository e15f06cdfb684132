/* The division of a model's units among pipeline stages and their chunks. */
#include "parallel/stage.h"

/* Blocks in virtual stages 0 to v - 1. The first layers % virtuals of them have one block more than the
 * others. */
static int64_t blocks_before(int64_t layers, int64_t virtuals, int64_t v)
{
    int64_t each = layers / virtuals, more = layers % virtuals;
    return v * each + (v < more ? v : more);
}

Status stage_make(Stage *stage, const ModelConfig *config, int stages, int index, int chunks)
{
    int64_t virtuals = (int64_t)stages * chunks;
    if (chunks > CHUNKS_MAX)
        return fail(BAD_OPTION,
            "%d model chunks per stage are more than the maximum of %d; use fewer, larger chunks", chunks,
                CHUNKS_MAX);
    if (config->layers < virtuals)
        return fail(BAD_OPTION,
            "%lld blocks cannot fill %d stages of %d chunks; give at most %lld stages x chunks",
            (long long)config->layers, stages, chunks, (long long)config->layers);
    *stage = (Stage){ .stages = stages, .stage = index, .chunks = chunks };
    for (int c = 0; c < chunks; c++) {
        int64_t v = (int64_t)c * stages + index;
        int64_t from = blocks_before(config->layers, virtuals, v) + 1,
            to = blocks_before(config->layers, virtuals, v + 1) + 1;
        if (v == 0) from--;                    /* the embedding, unit 0 */
        if (v == virtuals - 1) to++;           /* the head, the last unit */
        stage->first[c] = from;
        stage->count[c] = to - from;
    }
    return OK;
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
    if (recompute->method == RECOMPUTE_NONE || unit < 1 || unit > layers) return none;
    int64_t blocks = stage->first[chunk] < 1 ? 1 : 0;                  /* where the chunk's blocks begin */
    if (stage->first[chunk] + end - 1 > layers) end--;                 /* the head */
    if (recompute->method == RECOMPUTE_BLOCK)
        return i - blocks < recompute->layers ? (RecomputeGroup){ i, i + 1 } : none;
    int64_t first = i - (i - blocks) % recompute->layers, last = first + recompute->layers;
    return (RecomputeGroup){ first, last < end ? last : end };
}

bool stage_is_first(const Stage *stage, int chunk) { return stage->stage == 0 && chunk == 0; }
bool stage_is_last (const Stage *stage, int chunk)
{
    return stage->stage == stage->stages - 1 && chunk == stage->chunks - 1;
}
