#include <stdlib.h>
#include "data/feed.h"

static bool own_paths(const FeedRules *r) { return r->own[SPLIT_TRAIN].count || r->own[SPLIT_VALID].count || r->own[SPLIT_TEST].count; }

bool feed_has(const FeedRules *rules, SplitKind kind) { return !own_paths(rules) || rules->own[kind].count > 0; }

const FeedPairs *feed_pairs(const Feed *feed, SplitKind kind) { return &feed->pairs[own_paths(&feed->spec.rules) ? kind : SPLIT_TRAIN]; }

static const char *feed_split(const Feed *feed) { return own_paths(&feed->spec.rules) ? NULL : feed->spec.split; }

static Status pairs_list(MixList *list, const FeedRules *rules, FeedWords words)
{
    TRY(rules->list ? mixlist_file(list, rules->list) : mixlist_words(list, words.text, words.count));
    if (list->count == 0) return fail(BAD_OPTION, "--data-path names no data; give PREFIX or W PREFIX W PREFIX ...");
    if (rules->order != ORDER_JOTUN || (list->count == 1 && !list->weighed)) return OK;
    if (list->count == 1)
        return fail(BAD_OPTION, "--data-path %g %s: --data-order jotun reads one prefix, whose weight says nothing; leave the weight out",
                    list->part[0].weight, list->part[0].prefix);
    return fail(BAD_OPTION, "--data-order jotun reads one prefix without a weight, and there are %d; --data-order megatron blends them",
                list->count);
}

static Status pairs_open(FeedPairs *pairs, const FeedRules *rules, FeedWords words)
{
    TRY(pairs_list(&pairs->list, rules, words));
    pairs->shard = calloc((size_t)pairs->list.count, sizeof *pairs->shard);
    if (!pairs->shard) return fail(NO_MEMORY, "no memory for %d data sets", pairs->list.count);
    for (int i = 0; i < pairs->list.count; i++) TRY(shard_open(&pairs->shard[i], pairs->list.part[i].prefix));
    return OK;
}

Status feed_open(Feed *feed, const FeedSpec *spec)
{
    const FeedRules *rules = &spec->rules;
    *feed = (Feed){ .spec = *spec };
    Status status = own_paths(rules) ? OK : pairs_open(&feed->pairs[SPLIT_TRAIN], rules, rules->words);
    for (int kind = 0; status == OK && kind < SPLITS; kind++)
        if (rules->own[kind].count) status = pairs_open(&feed->pairs[kind], rules, rules->own[kind]);
    if (status != OK) feed_close(feed);
    return status;
}

static BlendSpec blend_spec(const Feed *feed, SplitKind kind, const LoaderShape *shape)
{
    const FeedRules *rules = &feed->spec.rules;
    return (BlendSpec){ .kind = rules->order == ORDER_MEGATRON ? BLEND_CORE : BLEND_FORKS, .split = feed_split(feed),
        .wanted = feed->spec.wanted[kind], .wanted_train = feed->spec.wanted[SPLIT_TRAIN],
        .sequence = shape->sequence, .seed = shape->seed, .cut = rules->cut, .surplus = rules->surplus,
        .corpus_shuffled = rules->corpus_shuffled, .corpus_blended = rules->corpus_blended, .cache = rules->cache };
}

Status feed_loader(Feed *feed, Loader *loader, SplitKind kind, LoaderShape shape)
{
    const FeedRules *rules = &feed->spec.rules;
    const FeedPairs *pairs = feed_pairs(feed, kind);
    if (rules->order == ORDER_JOTUN) return loader_open(loader, pairs->shard, feed_split(feed), kind, shape);
    BlendSpec spec = blend_spec(feed, kind, &shape);
    TRY(loader_open_blend(loader, &feed->blend[kind], shape));             /* the shape is judged before hours of indices */
    return blend_open(&feed->blend[kind], pairs->shard, &pairs->list, &spec, kind);
}

/* Our order takes every epoch whole, and the next one begins where it ends. */
static Status plain_measure(Feed *feed, SplitKind kind, const LoaderShape *shape)
{
    Loader loader;
    Blend *b = &feed->blend[kind];
    TRY(loader_open(&loader, feed_pairs(feed, kind)->shard, feed_split(feed), kind, *shape));
    *b = (Blend){ .count = 1, .plain = true, .order = calloc(1, sizeof *b->order) };
    if (!b->order) return fail(NO_MEMORY, "no memory for a data set");
    b->samples = feed->spec.wanted[kind] < 0 ? loader.samples : feed->spec.wanted[kind];
    b->order->plan = (OrderPlan){ .tokens = loader.tokens, .samples = loader.samples, .epochs = (b->samples + loader.samples - 1) / loader.samples };
    return OK;
}

Status feed_measure(Feed *feed, SplitKind kind, const LoaderShape *shape)
{
    const FeedPairs *pairs = feed_pairs(feed, kind);
    if (feed->spec.rules.order == ORDER_JOTUN) return plain_measure(feed, kind, shape);
    BlendSpec spec = blend_spec(feed, kind, shape);
    return blend_measure(&feed->blend[kind], pairs->shard, &pairs->list, &spec, kind);
}

void feed_close(Feed *feed)
{
    for (int kind = 0; kind < SPLITS; kind++) {
        FeedPairs *pairs = &feed->pairs[kind];
        blend_close(&feed->blend[kind]);
        for (int i = 0; pairs->shard && i < pairs->list.count; i++) shard_close(&pairs->shard[i]);
        free(pairs->shard);
        mixlist_close(&pairs->list);
    }
    *feed = (Feed){ 0 };
}
