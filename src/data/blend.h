#ifndef DATA_BLEND_H
#define DATA_BLEND_H
/* One order for samples of several token files. Each sample comes from the data set that is furthest below
 * its weight so far. The result equals Megatron-core's BlendedDataset with the sizes that its builder
 * requests, and the blends of its DeepSpeed forks: one level, or two levels if the data sets are grouped
 * into corpora (ALCF's fork). */
#include "data/blend_spec.h"
#include "data/order.h"

typedef enum { BLEND_CORE, BLEND_FORKS } BlendKind;       /* Megatron-core; its DeepSpeed forks */
typedef struct {
    BlendKind kind;
    const char *split;              /* --split; NULL: all sequences of each data set */
    /* Samples of the whole run, or ORDER_ONE_EPOCH: all of each data set, once. */
    int64_t  wanted;
    /* Samples of training: the forks weigh the corpora of every split by them. */
    int64_t  wanted_train;
    int64_t  sequence;              /* S, tokens */
    uint64_t seed;
    double   final_epoch_cut;       /* OrderSpec.final_epoch_cut */
    /* Share of samples built beyond a data set's own, since blends are uneven: 0.005. */
    double   surplus;
    bool     corpus_shuffled;       /* shuffle the samples within a corpus */
    bool     corpus_blended;        /* blend the data sets of a corpus; false: concatenate them */
    /* Directory for the indices of the data sets and the blend; NULL: no cache. */
    const char *cache;
} BlendRules;

typedef struct {
    int      count;                 /* data sets */
    Order   *order;                 /* [count] owned */
    int64_t  samples;
    bool     plain;                 /* one data set without a weight: the samples are those of its order */
    NpyArray which, sample;         /* [samples] the data set of sample k (i16), and its sample there (i64) */
} Blend;

/* token_files: those of the list, in its order, open; they remain the caller's and must outlive the blend.
 * BAD_OPTION or BAD_FILE if weights, samples and text do not fit together. */
Status blend_open (Blend *blend, const TokenFile *token_files, const BlendSpec *list, const BlendRules *rules,
                   SplitKind kind);
/* The same without building indices: `samples` and the orders' plans only. */
Status blend_measure(Blend *blend, const TokenFile *token_files, const BlendSpec *list,
                     const BlendRules *rules, SplitKind kind);
int64_t blend_bytes(const Blend *blend);                   /* of all indices, built or measured */
void   blend_close(Blend *blend);
OrderReader blend_read(const Blend *blend, int64_t k);     /* a reader at the first token of sample k */
#endif
