#ifndef PARALLEL_STAGE_SPLIT_H
#define PARALLEL_STAGE_SPLIT_H
/* The layers of each virtual stage of a pipeline. */
#include "model/model_config.h"
#include "parallel/schedule.h"

/* How layers are divided among the virtual stages; the names are Megatron-LM's. All zero: evenly. Where they
 * do not divide, the last virtual stage has so many fewer as makes up for the head's matrix products, and
 * stages as late as possible before it have one more than others: the first one has the embedding, and most
 * micro-batches in flight. */
typedef struct {
    /* --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers: of all chunks of the first and
     * the last stage; the others share the rest evenly. 0: not given */
    int64_t first, last;
    /* --account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split: embedding and head
     * count as a layer each, and then all divide evenly */
    bool    embedding, loss;
    /* --pipeline-model-parallel-layout: the virtual stages in order, E embedding, t layer, L head, | between
     * them; x*3 and (xy)*3 repeat, commas mean nothing. NULL: not given */
    const char *layout;
} StageSplit;

/* Writes layers[stages * chunks]. BAD_OPTION with what would work: layers that cannot be divided as `split`
 * says. */
Status stage_split_layers(int64_t *layers, const StageSplit *split, const ModelConfig *config,
                          const ScheduleShape *shape);
/* The virtual stages of a layout; 0: it cannot be read, which stage_split_layers explains. */
int    stage_layout_virtuals(const char *layout);
#endif
