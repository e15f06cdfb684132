#ifndef DATA_ORDER_H
#define DATA_ORDER_H
/* Megatron's order of the samples of one pair (docs/formats.md). Three indices: documents of all epochs, shuffled; where each sample
 * begins in them; samples, shuffled. A "document" is a sequence of the pair. Same as Megatron-core's GPTDataset, bit for bit. */
#include "data/npy_array.h"
#include "data/token_file.h"
#include "data/split.h"

enum { ORDER_ONE_EPOCH = -1 };
typedef struct {
    int64_t  begin, end;            /* sequences of this part */
    int64_t  wanted;                /* samples asked for, or ORDER_ONE_EPOCH */
    int64_t  sequence;              /* S: a sample is S + 1 tokens, and gives its last to the next sample too */
    uint64_t seed;
    double   cut;                   /* the last epoch is shuffled apart if less than this share of it is used: Megatron's is 0.80 */
} OrderSpec;

/* What follows from counts alone */
typedef struct {
    int64_t tokens, epochs;         /* of one epoch; epochs laid end to end */
    int64_t entries;                /* of the document index */
    int64_t samples, before_last;   /* in all; of the epochs before a last one that is kept apart, else samples */
    bool    separate;
    NpyType sample_type, shuffle_type;
} OrderPlan;
Status order_plan(OrderPlan *plan, const OrderSpec *spec, int64_t tokens, const char *what);     /* what: named in errors */

typedef struct { const TokenFile *token_file; OrderSpec spec; OrderPlan plan; NpyArray document, sample, shuffle; } Order;
/* cache: a folder, or NULL. kind names the part in the cache. The shard stays the caller's. */
Status order_open (Order *order, const TokenFile *token_file, const OrderSpec *spec, SplitKind kind, const char *cache);
Status order_measure(Order *order, const TokenFile *token_file, const OrderSpec *spec);      /* the plan alone */
int64_t order_bytes(const Order *order);                                       /* of its indices, made or measured */
void   order_close(Order *order);

/* The S + 1 tokens of a sample, one by one. A reader of a plain run of tokens has no order. */
typedef struct { const TokenFile *token_file; const Order *order; int64_t document, at, end; } OrderReader;
OrderReader order_read  (const Order *order, int64_t sample);                  /* sample k of the shuffled order */
int64_t     order_place (OrderReader *reader);                                 /* of the next token, from the start of .bin */
#endif
