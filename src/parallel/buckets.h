#ifndef PARALLEL_BUCKETS_H
#define PARALLEL_BUCKETS_H
/* The parameters that a rank holds, their gradients, and how data-parallel ranks share them: data parallelism
 * and ZeRO (arXiv 1910.02054). A bucket is one ParamBlock with its weights and gradients: what is gathered,
 * reduced and updated together. PyTorch DDP's and Megatron-LM's buckets are ranges of gradients of so many
 * MB or parameters, whatever layers they belong to; here the unit decides, and there is no size to choose.
 *
 * d is the number of ranks of dp x cp, which have the same parameters. What is sharded over them:
 *     ZeRO 0   nothing: weights, gradients and optimizer states are replicated
 *     ZeRO 1   optimizer states
 *     ZeRO 2   optimizer states and gradients
 *     ZeRO 3   optimizer states, gradients and weights
 * A sharded parameter block is padded to a multiple of d elements; data rank r has elements [r shard,
 * (r + 1) shard).
 * Under ZeRO 2 and 3 gradients are reduced once per micro-batch, elsewhere once per step. */
#include "model/unit.h"
#include "parallel/stage.h"

typedef struct {
    ParamBlock block;                           /* its layout */
    /* elements: of the padded block; of a shard; where this rank's shard begins */
    int64_t    padded, shard, shard_first;
    /* elements this rank updates: its shard, or all under ZeRO 0 */
    int64_t    own_first, own_count;
    /* [padded], or [shard] where sharded; on the persistent arena */
    Tensor     weights, grads;
    /* [own_count], in training with parameters narrower than Precision.master: the weights that the optimizer
     * updates, of which `weights` are the rounded copy. Absent elsewhere. */
    Tensor     master;
    /* false: a second copy of the tied token embedding, which saves and norms skip */
    bool       counted;
} Bucket;

/* ZeRO 3: whole weights of one unit, or an all-gather in progress: of the unit's own block and, where it
 * uses that, of the token embedding. unit -1: empty; held: between unshard and reshard. */
typedef struct { int64_t unit; Tensor flat; Pending own_gather, embedding_gather; bool held; } GatherSlot;

typedef struct {
    const ModelConfig *config;
    Precision precision;
    Queue   *queue;
    int      zero_stage;                        /* 0 where there is one data rank only */
    bool     training;                          /* false: weights alone, no gradients */
    /* sequence parallelism: gradients of replicated parameters are summed over tp */
    bool     sequence_parallel;
    /* dp x cp; tp; the first and last stage with a tied embedding, else NULL */
    Comm    *data_comm, *tp, *tied;
    Arena   *scratch;
    int      count;
    Bucket  *bucket;                            /* [count], owned: buckets_close */
    /* index in `bucket` by the parameter block's index, -1: not on this stage; owned */
    int     *of_block;
    GatherSlot slot[2];                         /* ZeRO 3: the unit that runs and the one being prefetched */
    /* ZeRO 2, 3: whole gradients of the unit whose backward_weight runs */
    Tensor   unit_grads;
} Buckets;

/* What buckets_open takes: fields as in Buckets. Weights, gradients are pushed on `persistent`, gathered
 * units on `gathered`. */
typedef struct {
    const ModelConfig *config;
    const Stage *stage;
    Precision precision;
    Queue *queue;
    int    zero_stage;
    bool   training, sequence_parallel;
    Comm  *data_comm, *tp, *tied;
    Arena *persistent, *gathered, *scratch;
} BucketsSetup;

/* The contents of weights are not set: buckets_init or a checkpoint does that. No communication. */
void buckets_open (Buckets *buckets, const BucketsSetup *setup);
void buckets_close(Buckets *buckets);
/* weights as params_init makes them */
void buckets_init (Buckets *buckets, uint64_t seed);
/* The bucket of a parameter block; NULL: it is not on this stage. */
Bucket *bucket_of (Buckets *buckets, int64_t block);
/* The elements that this rank updates, [own_count], of `x`: the bucket's weights or grads, sharded or not. */
Tensor  bucket_own(const Bucket *bucket, Tensor x);
/* What the optimizer updates: the master weights, or its own part of the weights. [own_count] */
Tensor  bucket_master(const Bucket *bucket);
/* `whole` gradients [padded] in the type of messages: rounded, on scratch; themselves where the types are
 * equal or nothing is sent, since there is one data rank. */
Tensor  bucket_message(const Buckets *buckets, const Bucket *bucket, Tensor whole);

void buckets_zero_grads(Buckets *buckets);                              /* before a step */
/* A chunk's gradients are complete: sums its buckets over dp x cp, and replicated parameters over tp under
 * sequence parallelism. Then the own elements of grads are the sums. <-> dp+cp: all-reduce | reduce-scatter |
 * - under ZeRO 0 | 1 | 2, 3; <-> tp */
void buckets_reduce(Buckets *buckets, const Stage *stage, int chunk);
/* The same for the token embedding, which the first and the last unit add to; a tied copy is summed with the
 * other stage's. Once per step, after all chunks. <-> dp+cp, <-> tied: all-reduce */
void buckets_reduce_tied(Buckets *buckets);
/* After the update: the updated shards to all data ranks. <-> dp+cp: all-gather under ZeRO 1 and 2; nothing
 * else shards them */
void buckets_all_gather_params(Buckets *buckets);

/* ---- the parameters of a unit while it runs (parallel/zero.c) ----
 * The order for each unit is: prefetch (optional), unshard, compute, reshard; at most two units are in
 * memory. Below ZeRO 3 these are views of the weights and communicate nothing. */
void      zero_prefetch(Buckets *buckets, int64_t unit);      /* <-> dp+cp: all-gather begins, under ZeRO 3 */
UnitParam zero_unshard (Buckets *buckets, int64_t unit);                /* waits for it, or gathers now */
void      zero_reshard (Buckets *buckets, int64_t unit);                /* frees the gathered weights */
/* Where unit_backward_weight adds: the bucket's gradients or, under ZeRO 2 and 3, a zeroed buffer for this
 * micro-batch. */
UnitParam zero_unshard_grads(Buckets *buckets, int64_t unit);
void      zero_reduce_grads (Buckets *buckets, int64_t unit);  /* <-> dp+cp: reduce-scatter under ZeRO 2, 3 */
bool      unit_uses_embedding(const ModelConfig *config, int64_t unit);  /* the embedding and a tied head */
#endif
