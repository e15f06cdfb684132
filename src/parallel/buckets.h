#ifndef PARALLEL_BUCKETS_H
#define PARALLEL_BUCKETS_H
/* The parameters a rank holds, block by block, and how data-parallel ranks share them. A bucket is one ParamBlock: what is
 * gathered, reduced and updated as one.
 *
 * d ranks of dp x cp.    ZeRO 0: weights, gradients and states whole on each    1: states cut    2: gradients cut too    3: weights too
 * TpSharding means: of the flat block, padded to a multiple of d, data rank r has elements [r shard, (r + 1) shard).                     */
#include "model/unit.h"
#include "parallel/stage.h"

typedef struct {
    ParamBlock block;
    int64_t    padded, shard, shard_first;      /* elements */
    int64_t    own_first, own_count;            /* what this rank updates: the shard, or everything under ZeRO 0 */
    Tensor     weights, grads;                  /* [padded], or [shard] where cut */
    bool       counted;                         /* false: another stage's copy of the word embedding stands for it */
} Bucket;

typedef struct { int64_t unit; Tensor flat; Pending own, word; bool held; } GatherSlot;     /* unit -1: empty */

typedef struct {
    const ModelConfig *config;
    Queue   *queue;
    int      zero_stage;
    bool     learn;                             /* false: weights alone, nothing is trained */
    bool     sequence;                          /* replicated parameters have partial gradients: summed over tp */
    Comm    *data, *tp, *tied;                  /* dp x cp; tp; the stages that share the word embedding (NULL: none do) */
    Arena   *scratch;
    int      count;
    Bucket  *bucket;                            /* owned: buckets_close */
    int     *of_block;                          /* by block index; -1: not here */
    GatherSlot slot[2];                         /* ZeRO 3: the unit at hand and the one arriving */
    Tensor   unit_grads;                        /* ZeRO 2, 3: whole gradients of the unit at hand */
} Buckets;

typedef struct { const ModelConfig *config; const Stage *stage; Queue *queue; int zero_stage; bool learn, sequence; Comm *data, *tp, *tied;
                 Arena *persistent, *gathered, *scratch; } BucketsSetup;
void buckets_open (Buckets *buckets, const BucketsSetup *setup);
void buckets_close(Buckets *buckets);
void buckets_init (Buckets *buckets, uint64_t seed);                    /* weights as (seed, name, index) say */
Bucket *bucket_of (Buckets *buckets, int64_t block);                    /* NULL: not here */
Tensor  bucket_own(const Bucket *bucket, Tensor whole_or_cut);          /* the elements this rank updates, of weights or grads */

void buckets_zero_grads (Buckets *buckets);                                   /* gradients to 0, before a step */
/* A chunk's gradients are complete: its buckets are summed over dp x cp (and tp, stages). Then own elements of grads are the sums. */
void buckets_reduce(Buckets *buckets, const Stage *stage, int chunk);   /* <-> dp+cp: all-reduce | reduce-scatter | -; <-> tp under sequence parallel */
void buckets_reduce_tied(Buckets *buckets);                                  /* the word embedding, which two chunks may feed; <-> tied: all-reduce */
void buckets_all_gather_params(Buckets *buckets);                                  /* updated weights to all; <-> dp+cp: all-gather under ZeRO 1, 2 */

/* ---- a unit's parameters while it runs (parallel/zero.c) ---- */
void      zero_prefetch(Buckets *buckets, int64_t unit);                /* <-> dp+cp: all-gather begins, under ZeRO 3 */
UnitParam zero_unshard    (Buckets *buckets, int64_t unit);                /* waits for it, or gathers now */
void      zero_reshard (Buckets *buckets, int64_t unit);
UnitParam zero_unshard_grads   (Buckets *buckets, int64_t unit);           /* where unit_backward_weight adds */
void      zero_reduce_grads(Buckets *buckets, int64_t unit);           /* <-> dp+cp: reduce-scatter under ZeRO 2, 3, every micro-batch */
bool      unit_uses_word(const ModelConfig *config, int64_t unit);
#endif
