#include <stdlib.h>
#include "data/feed.h"

static Status feed_list(Feed *feed)
{
    const FeedRules *rules = &feed->spec.rules;
    TRY(rules->list ? mixlist_file(&feed->list, rules->list) : mixlist_words(&feed->list, rules->words, rules->count));
    if (rules->order != ORDER_JOTUN || (feed->list.count == 1 && !feed->list.weighed)) return OK;
    return fail(BAD_OPTION, "--data-order jotun reads one prefix without a weight, and there are %d; --data-order megatron blends them",
                feed->list.count);
}

Status feed_open(Feed *feed, const FeedSpec *spec)
{
    *feed = (Feed){ .spec = *spec };
    Status status = feed_list(feed);
    if (status == OK && feed->list.count == 0) status = fail(BAD_OPTION, "--data-path names no data; give PREFIX or W PREFIX W PREFIX ...");
    if (status == OK) {
        feed->shard = calloc((size_t)feed->list.count, sizeof *feed->shard);
        if (!feed->shard) status = fail(NO_MEMORY, "no memory for %d data sets", feed->list.count);
    }
    for (int i = 0; status == OK && i < feed->list.count; i++) status = shard_open(&feed->shard[i], feed->list.part[i].prefix);
    if (status != OK) feed_close(feed);
    return status;
}

Status feed_loader(Feed *feed, Loader *loader, SplitKind kind, LoaderShape shape)
{
    const FeedRules *rules = &feed->spec.rules;
    if (rules->order == ORDER_JOTUN) return loader_open(loader, feed->shard, feed->spec.split, kind, shape);
    BlendSpec spec = { .kind = rules->order == ORDER_MEGATRON ? BLEND_CORE : BLEND_FORKS, .split = feed->spec.split,
        .wanted = kind == SPLIT_TRAIN ? feed->spec.train : feed->spec.valid, .wanted_train = feed->spec.train,
        .sequence = shape.sequence, .seed = shape.seed, .cut = rules->cut, .surplus = rules->surplus,
        .corpus_shuffled = rules->corpus_shuffled, .corpus_blended = rules->corpus_blended, .cache = rules->cache };
    TRY(loader_open_blend(loader, &feed->blend[kind], shape));             /* the shape is judged before hours of indices */
    return blend_open(&feed->blend[kind], feed->shard, &feed->list, &spec, kind);
}

void feed_close(Feed *feed)
{
    for (int i = 0; i < 2; i++) blend_close(&feed->blend[i]);
    for (int i = 0; feed->shard && i < feed->list.count; i++) shard_close(&feed->shard[i]);
    free(feed->shard);
    mixlist_close(&feed->list);
    *feed = (Feed){ 0 };
}
