#ifndef DATA_FEED_H
#define DATA_FEED_H
/* All that feeds a run: its pairs, open, and the order of their samples, for the loaders of train and valid. */
#include "data/loader.h"

typedef enum { ORDER_JOTUN, ORDER_MEGATRON, ORDER_FORKS } OrderKind;
typedef struct {
    OrderKind order;
    const char *const *words;       /* of --data-path: W P W P ... or P ... */
    int      count;
    const char *list, *cache;       /* a file of three columns instead of words; a folder; NULL: none */
    double   cut, surplus;
    bool     corpus_shuffled, corpus_blended;
} FeedRules;

typedef struct { FeedRules rules; const char *split; int64_t train, valid; } FeedSpec;        /* samples of the whole run */
typedef struct { FeedSpec spec; MixList list; Shard *shard; Blend blend[2]; } Feed;           /* blend: of train, of valid */

Status feed_open  (Feed *feed, const FeedSpec *spec);
/* of SPLIT_TRAIN or SPLIT_VALID, once each. The feed stays where it is as long as the loader is used. */
Status feed_loader(Feed *feed, Loader *loader, SplitKind kind, LoaderShape shape);
void   feed_close (Feed *feed);                                                                /* of zeros too */
#endif
