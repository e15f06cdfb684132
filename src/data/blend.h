#ifndef DATA_BLEND_H
#define DATA_BLEND_H
/* Samples of many pairs in one order: whichever is furthest behind its weight comes next. Same as Megatron-core's BlendedDataset with
 * the sizes its builder asks for, and as the blends of its DeepSpeed forks: one level, or two where corpora are named (ALCF). */
#include "data/blend_spec.h"
#include "data/order.h"

typedef enum { BLEND_CORE, BLEND_FORKS } BlendKind;
typedef struct {
    BlendKind kind;
    const char *split;
    int64_t  wanted;                /* samples of the whole run, or ORDER_ONE_EPOCH: of each pair all, once */
    int64_t  wanted_train;          /* samples of training: the forks weigh corpora of every part by its */
    int64_t  sequence;
    uint64_t seed;
    double   cut, surplus;          /* OrderSpec; share made of each pair beyond its part, since blends are uneven: 0.005 */
    bool     corpus_shuffled, corpus_blended;      /* within a corpus: samples shuffled; its pairs blended, else end to end */
    const char *cache;              /* a folder, or NULL: of the orders of its pairs, and of the blend */
} BlendRules;

typedef struct {
    int      count;
    Order   *order;                 /* by pair */
    int64_t  samples;
    bool     plain;                 /* one pair without a weight: samples are those of its order */
    NpyArray    which, sample;         /* of sample k: the pair (i16), and which of its samples (i64) */
} Blend;

/* shards: those of the list, open, which stay the caller's */
Status blend_open (Blend *blend, const TokenFile *token_files, const BlendSpec *list, const BlendRules *spec, SplitKind kind);
Status blend_measure(Blend *blend, const TokenFile *token_files, const BlendSpec *list, const BlendRules *spec, SplitKind kind);     /* counts alone, no index */
int64_t blend_bytes(const Blend *blend);                   /* of all indices, made or measured */
void   blend_close(Blend *blend);
OrderReader blend_read(const Blend *blend, int64_t k);

/* The rule by itself: sample s goes to the first i with the largest weight_i max(s, 1) - count_i. which, sample: I16 and I64 of as
 * many rows; weights sum to 1. */
Status blend_greedy(NpyArray *which, NpyArray *sample, const double *weight, int count);
#endif
