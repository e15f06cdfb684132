#include "train/journal/data_shares.h"

int data_shares(const Trainer *t)
{
    const Loader *loader = &t->input.loader[SPLIT_TRAIN];
    return loader->blend ? loader->blend->count : 1;
}

/* What a blend takes of a data set, in proportion to the others. */
static double part_of(const Blend *blend, const BlendSpec *list, int i)
{
    return list->weighted ? list->part[i].weight : (double)blend->order[i].plan.samples;
}

DataShare data_share(const Trainer *t, int i)
{
    const Loader *loader = &t->input.loader[SPLIT_TRAIN];
    const BlendSpec *list = &datasets_files(&t->input.datasets, SPLIT_TRAIN)->list;
    double samples = (double)trainer_samples_at_end(t), all = 0;
    const char *name = i < list->count ? list->part[i].prefix : t->config->token_prefix;
    if (!loader->blend)
        return (DataShare){ name, 1, samples, (double)loader->tokens, samples / (double)loader->samples };
    for (int k = 0; k < loader->blend->count; k++) all += part_of(loader->blend, list, k);
    double share  = part_of(loader->blend, list, i) / all;
    double tokens = (double)loader->blend->order[i].plan.tokens;
    double epochs = samples * share * (double)t->config->model.sequence / tokens;
    return (DataShare){ name, share, samples * share, tokens, epochs };
}
