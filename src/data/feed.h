#ifndef DATA_FEED_H
#define DATA_FEED_H
/* All that feeds a run: its pairs, open, and the order of their samples, for the loaders of train, valid and test. */
#include "data/loader.h"

typedef enum { ORDER_JOTUN, ORDER_MEGATRON, ORDER_FORKS } OrderKind;
typedef struct { const char *const *text; int count; } FeedWords;      /* W P W P ... or P ... */
typedef struct {
    OrderKind order;
    FeedWords words, own[SPLITS];   /* of --data-path, cut by the split; or of --train-data-path and so on, each taken whole */
    const char *list, *cache;       /* a file of three columns instead of words; a folder; NULL: none */
    double   cut, surplus;
    bool     corpus_shuffled, corpus_blended;
} FeedRules;

typedef struct { FeedRules rules; const char *split; int64_t wanted[SPLITS]; } FeedSpec;       /* samples of the whole run */
typedef struct { MixList list; Shard *shard; } FeedPairs;
typedef struct { FeedSpec spec; FeedPairs pairs[SPLITS]; Blend blend[SPLITS]; } Feed;          /* pairs: one set cut in three is the first */

Status feed_open  (Feed *feed, const FeedSpec *spec);
bool   feed_has   (const FeedRules *rules, SplitKind kind);      /* where splits have paths of their own, one without has no data */
const FeedPairs *feed_pairs(const Feed *feed, SplitKind kind);
/* Each split once. The feed stays where it is as long as the loader is used. */
Status feed_loader(Feed *feed, Loader *loader, SplitKind kind, LoaderShape shape);
/* What feed_loader would make of a split: counts alone, of our order too, whose one Order has no indices. Of a feed that only measures. */
Status feed_measure(Feed *feed, SplitKind kind, const LoaderShape *shape);
/* All its pairs, a line each: the prefix, a tab, shard_print's words. To be freed; NULL: no memory */
char  *feed_prints(const Feed *feed);
/* Says in the log which pairs are not those that `prints` tells of under the same prefix */
Status feed_compare(const Feed *feed, const char *prints);
void   feed_close (Feed *feed);                                                                /* of zeros too */
#endif
