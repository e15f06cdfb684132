#ifndef PARALLEL_BUCKETS_H
#define PARALLEL_BUCKETS_H
/* The parameters that a rank holds, their gradients, and how data-parallel ranks share them: data parallelism
 * and ZeRO (arXiv 1910.02054). A bucket is one ParamBlock with its weights and gradients: what is gathered,
 * reduced and updated together. A unit has a list of them: its own, its experts, the token embedding. PyTorch
 * DDP's and Megatron-LM's buckets are ranges of gradients of so many MB or parameters, whatever layers they
 * belong to; here the unit decides, and there is no size to choose.
 *
 * Data ranks have the same parameters: those of dp x cp, and of edp for experts. They form a grid of two
 * communicators:
 *     shard     d ranks that follow each other, over which ZeRO shards
 *     replica   the ranks with the same shard
 * Hybrid sharding has replicas of shards. Without it one of the two has all data ranks and the other this
 * rank alone: replica under ZeRO 0, shard else. What is sharded over the shard ranks:
 *     ZeRO 0   nothing: weights, gradients and optimizer states are replicated
 *     ZeRO 1   optimizer states
 *     ZeRO 2   optimizer states and gradients
 *     ZeRO 3   optimizer states, gradients and weights
 * Rank r of shard owns the elements [begin[r], begin[r + 1]) of the block. The boundaries are snapped to what
 * the optimizer can update alone (ParamGranule), so ranks may own unequal parts.
 *
 * Gradients are summed over shard in the order of ranks, then over replica in the order of ranks, then over
 * the ranks that the parameter names (GradientSum): the sums of each rank's own elements alone. Over shard it
 * is once for each micro-batch under ZeRO 2 and 3, all else once for each step. */
#include "model/unit.h"
#include "parallel/stage.h"

/* Of one family of parameters; owned by the caller. worker: of the replica's ranks those that have parts of
 * the same samples, the context-parallel ones; NULL: this rank alone. */
typedef struct { Comm *shard, *replica, *worker; } DataComms;

typedef struct {
    ParamBlock block;                           /* its layout */
    DataComms comms;
    int      zero_stage;                        /* 0 where shard has one rank */
    /* [d + 1], owned: where the shards begin. begin[d] is the elements of whole tensors, at least
     * block.count; equal: all shards have equally many, the last ones perhaps of padding */
    int64_t *begin;
    bool     equal;
    /* elements this rank updates: its shard, or all under ZeRO 0 */
    int64_t  own_first, own_count;
    /* the part of them that this rank saves and counts in norms: over the data ranks each element is in one.
     * Empty in the second copy of the token embedding. */
    int64_t  counted_first, counted_count;
    int64_t  share_count;                       /* counted_count, but in that second copy not 0 */
    bool     copy;                              /* it is that second copy */
    /* [begin[d]], or [own_count] where sharded; on the persistent arena */
    Tensor   weights, grads;
    /* [own_count], in training with parameters narrower than Precision.master: the weights that the optimizer
     * updates, of which `weights` are the rounded copy. Also where its averages are not the parameters.
     * Absent elsewhere. */
    Tensor   master;
    /* the unit whose backward completes its gradients, the first of this stage that uses it */
    int64_t  last_unit;
    /* background (parallel/background_sums.c): sums of its gradients that are done, over shard, over replica;
     * gather: the all-gather of its updated weights is in flight, while `gathering` */
    bool     summed, replicas_summed, gathering;
    Pending  gather;
} Bucket;

/* A sum of a bucket's gradients in the background, in place. Over shard under ZeRO 2 and 3 that is
 * unit_grads[buffer], of which `part`, this rank's own elements, is added to the gradients at the end. final:
 * it completes those of the step, and their sum over replica follows. Gradients that are rounded for their
 * messages are copied to the window, so that no buffer is taken and `part` is there; NARROW_SUMS bounds the
 * memory of that. */
enum { BACKGROUND_SUMS = 4, NARROW_SUMS = 2 };
typedef struct {
    Bucket *bucket;
    Comm   *comm;
    Pending pending;
    int     buffer;
    bool    final;
    Tensor  part;
    Arena   window;
} BackgroundSum;

/* ZeRO 3: whole weights of one unit, or an all-gather in progress, of its buckets that are sharded. unit -1:
 * empty; held: between unshard and reshard. */
typedef struct { int64_t unit; Tensor flat; Pending gather[UNIT_BLOCKS]; bool held; } GatherSlot;

typedef struct {
    const ModelConfig *config;
    Precision precision;
    Queue   *queue;
    bool     training;                          /* false: weights alone, no gradients */
    /* tp, its ranks with copies of a key-value head; the first and last stage where both have the embedding
     * (model_embedding_copied), else NULL */
    Comm    *tp, *kv, *tied;
    Arena   *scratch;
    int64_t  window;                            /* elements of gradients that are rounded for one message */
    /* without ZeRO: gradients are summed over DataComms.worker alone, and are those of own samples */
    bool     own_gradients;
    int      count;
    Bucket  *bucket;                            /* [count], owned: buckets_close */
    /* index in `bucket` by family and the parameter block's index, -1: not on this stage; owned */
    int     *of_block[PARAM_FAMILIES];
    GatherSlot slot[2];                         /* ZeRO 3: the unit that runs and the one being prefetched */
    /* ZeRO 2, 3: whole gradients of the unit whose backward_weight runs, in unit_grads[turn]; of a unit
     * before it, whose sums are in flight, in the other */
    Tensor   unit_grads[2];
    int      turn;
    /* sums, gathers and prefetches run beside computation */
    bool     overlap;
    /* sums begun and ended: those between are in flight, the oldest first, in
     * background[number % BACKGROUND_SUMS], or NARROW_SUMS */
    BackgroundSum   background[BACKGROUND_SUMS];
    long     sums_begun, sums_ended;
} Buckets;

/* What buckets_open takes: fields as in Buckets. Weights, gradients are pushed on `persistent`, gathered
 * units on `gathered`. */
typedef struct {
    const ModelConfig *config;
    const Stage *stage;
    Precision precision;
    Queue *queue;
    int    zero_stage;
    bool   training, overlap;
    bool   averages;                            /* the optimizer's weights are not the parameters */
    const ParamRanks *ranks;
    ParamGranule granule;                       /* of the optimizer */
    int64_t window;                             /* 0: MESSAGE_WINDOW */
    DataComms data[PARAM_FAMILIES];
    Comm  *tp, *kv, *tied;
    Arena *persistent, *gathered, *scratch;
} BucketsSetup;

enum { MESSAGE_WINDOW = 1 << 20 };

/* The contents of weights are not set: buckets_init or a checkpoint does that. No communication. */
void buckets_open (Buckets *buckets, const BucketsSetup *setup);
void buckets_close(Buckets *buckets);
/* weights as params_init makes them */
void buckets_init (Buckets *buckets, uint64_t seed);
/* weights and their masters 0, before a checkpoint that has all of them is read, whose initial values would
 * be drawn for nothing */
void buckets_zero_weights(Buckets *buckets);
/* The bucket of a parameter block; NULL: it is not on this stage, or there is no such block. */
Bucket *bucket_of  (Buckets *buckets, ParamFamily family, int64_t block);
/* A bucket of a unit; NULL: it has none of this kind. */
Bucket *unit_bucket(Buckets *buckets, int64_t unit, UnitBlock which);
/* The elements that this rank updates, [own_count], of `x`: the bucket's weights or grads, sharded or not. */
Tensor  bucket_own (const Bucket *bucket, Tensor x);
/* Whether this rank counts and saves what a worker has alone, of several ranks that are one worker and of
 * copies. */
bool    bucket_counts_worker(const Bucket *bucket);
/* What the optimizer updates: the master weights, or its own part of the weights. [own_count] */
Tensor  bucket_master(const Bucket *bucket);
int64_t bucket_whole (const Bucket *bucket);                 /* elements of whole tensors: begin[d] */
/* The same up to a multiple of PARAM_ALIGN: what a bucket takes where others follow it. */
int64_t bucket_room  (const Bucket *bucket);
/* begin [d + 1] of a block. ahead [d + 1], 0 before the first block: what the first r ranks own of the blocks
 * so far above their share. Ranks that hold parts of the same tensors get the same boundaries. */
void    bucket_boundaries(int64_t *begin, int64_t *ahead, const ParamBlock *block, int d,
                          ParamGranule granule);
/* Sums `whole` gradients [begin[d]] over the shard ranks: sum [own_count] are this rank's own elements, and
 * may be those of `whole`. They are sent in the type of messages. Takes scratch.
 * <-> shard: reduce-scatter */
void    bucket_sum_shards(Buckets *buckets, const Bucket *bucket, Tensor sum, Tensor whole);

/* whole [begin[d]] from the own elements of all shard ranks; comm_wait on `shard` completes it.
 * <-> shard: all-gather */
Pending bucket_gather_begin(Buckets *buckets, const Bucket *bucket, Tensor whole, Tensor own);

void buckets_zero_grads(Buckets *buckets);                              /* before a step */

/* Gradients are rounded for their messages (--grad-reduce-in-bf16), which then go out by windows, and nothing
 * in the background, but where devices add them (comm_adds_on_device). */
static inline bool buckets_narrow(const Buckets *b) { return b->precision.message != b->precision.gradient; }

/* ---- in the background (parallel/background_sums.c), where `overlap` is on: the same bits ---- */
/* Allocates windows and parts on the arenas of the setup; called by buckets_open. */
void background_sums_open(Buckets *buckets, const BucketsSetup *setup);
void background_sums_close(Buckets *buckets);
/* Sums `whole` of the bucket over shard into its own gradients, or under ZeRO 2 and 3 into a part of its own;
 * under ZeRO 0 over replica. Waits for the oldest sum where all are taken. False, and nothing is begun,
 * where it cannot be: overlap is off, the messages have another type and do not go between devices, or there
 * is one rank.
 * <-> shard, replica */
bool background_sum_begin(Buckets *buckets, Bucket *bucket, Tensor whole, int buffer, bool final);
/* Waits for sums until none reads the buffer; -1: until there is none. */
void buckets_wait_sums(Buckets *buckets, int buffer);
/* The unit's gradients are complete for this step: begins the first of their sums under ZeRO 0 and 1.
 * buckets_reduce does the rest.  <-> shard, replica */
void buckets_reduce_begin(Buckets *buckets, int64_t unit);
/* After the update of a bucket: its updated shards to all shard ranks; ends in zero_unshard of a unit that
 * uses it, or in buckets_gathered, which must be called before the communicators are closed.
 * <-> shard: all-gather under ZeRO 1 and 2 */
void buckets_gather_begin(Buckets *buckets, Bucket *bucket);
void bucket_gathered (Bucket *bucket);
void buckets_gathered(Buckets *buckets);
/* A chunk's gradients are complete: sums them over all ranks that have them. Then the own elements of grads
 * are the sums. <-> shard: reduce-scatter under ZeRO 1; replica, tp, kv: all-reduce */
void buckets_reduce(Buckets *buckets, const Stage *stage, int chunk);
/* The same for the token embedding, which the first and the last units add to; a copy is summed with the
 * other stage's. Once per step, after all chunks. <-> as above, tied: all-reduce */
void buckets_reduce_tied(Buckets *buckets);
/* ---- the parameters of a unit while it runs (parallel/zero.c) ----
 * The order for each unit is: prefetch (optional), unshard, compute, reshard; at most two units are in
 * memory. Below ZeRO 3 these are views of the weights and communicate nothing. */
void      zero_prefetch(Buckets *buckets, int64_t unit);      /* <-> shard: all-gather begins, under ZeRO 3 */
UnitParam zero_unshard (Buckets *buckets, int64_t unit);                /* waits for it, or gathers now */
void      zero_reshard (Buckets *buckets, int64_t unit);                /* frees the gathered weights */
/* Where unit_backward_weight adds: the bucket's gradients or, under ZeRO 2 and 3, a zeroed buffer for this
 * micro-batch. */
UnitParam zero_unshard_grads(Buckets *buckets, int64_t unit);
/* final: of the last micro-batch.  <-> shard: reduce-scatter under ZeRO 2, 3; then replica */
void      zero_reduce_grads (Buckets *buckets, int64_t unit, bool final);
/* the embedding, a tied head and multi-token prediction */
bool      unit_uses_embedding(const ModelConfig *config, int64_t unit);
#endif
