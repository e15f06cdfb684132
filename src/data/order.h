#ifndef DATA_ORDER_H
#define DATA_ORDER_H
/* Megatron-LM's order of the samples of one token file (docs/formats.md), equal to Megatron-core's
 * GPTDataset bit for bit. There are three indices: the documents of all epochs, shuffled; where each
 * sample begins in them; and the samples, shuffled. A "document" in this order is a sequence of the token
 * file. */
#include "data/npy_array.h"
#include "data/token_file.h"
#include "data/split.h"

enum { ORDER_ONE_EPOCH = -1 };
typedef struct {
    int64_t  begin, end;            /* sequences of this split: [begin, end) */
    int64_t  wanted;                /* samples requested, or ORDER_ONE_EPOCH */
    /* S: a sample is S + 1 tokens; its last token is also the first of the next one. */
    int64_t  sequence;
    uint64_t seed;                  /* below 2^32 */
    /* The last epoch is shuffled separately if less than this share of it is used: 0.80. */
    double   final_epoch_cut;
} OrderSpec;

/* What follows from numbers alone, without reading lengths. */
typedef struct {
    int64_t tokens, epochs;         /* tokens of one epoch; epochs in all */
    int64_t entries;                /* of the document index: epochs * (end - begin) */
    int64_t samples;                /* in all */
    /* Samples of the epochs before a last one that is shuffled separately, else samples. */
    int64_t before_last;
    bool    separate;               /* the last epoch is shuffled separately */
    NpyType sample_type, shuffle_type;      /* as wide as the numbers require */
} OrderPlan;
/* `what` names the token file in errors. BAD_FILE or BAD_OPTION if there are too few tokens or too many
 * epochs. */
Status order_plan(OrderPlan *plan, const OrderSpec *spec, int64_t tokens, const char *what);

/* document: [entries]; sample: [samples + 1, 2] entry of the document index and offset in tokens; shuffle:
 * [samples] */
typedef struct { const TokenFile *token_file; OrderSpec spec; OrderPlan plan; NpyArray document, sample,
    shuffle; } Order;
/* Builds the indices or maps them from `cache`, a directory or NULL; `kind` names the split there. The
 * token file remains the caller's and must outlive the order. */
Status order_open (Order *order, const TokenFile *token_file, const OrderSpec *spec, SplitKind kind,
                   const char *cache);
/* The plan alone. */
Status order_measure(Order *order, const TokenFile *token_file, const OrderSpec *spec);
int64_t order_bytes(const Order *order);                   /* of its indices, built or measured */
void   order_close(Order *order);

/* Reads the S + 1 tokens of a sample one by one. For a contiguous range of tokens `order` is NULL. at and
 * end are tokens from the start of .bin, of the current document or range. */
typedef struct { const TokenFile *token_file; const Order *order; int64_t document, at, end; } OrderReader;
OrderReader order_read  (const Order *order, int64_t sample);      /* sample k of the shuffled order */
/* The next token, counted from the start of .bin. */
int64_t     order_reader_next(OrderReader *reader);
#endif
