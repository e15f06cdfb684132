#ifndef DATA_LOADER_H
#define DATA_LOADER_H
/* From token files to batches. Which samples a step takes is a pure function of (seed, samples consumed
 * before it, sizes), so a resume needs one integer and every layout sees the same samples. Sample i of a
 * split is the tokens [i S, i S + S + 1) of the split's documents, concatenated; epoch e takes the samples in
 * the order random_permute(key(seed, e), n, .); the same of fairseq's blocks (data/blocks.h).
 * Alternatively the samples are those of a blend, in Megatron's order. No function here communicates. */
#include "base/length_schedule.h"
#include "data/blend.h"
#include "data/blocks.h"
#include "tensor/queue.h"

/* b sequences of a micro-batch   S positions of a whole sequence   s of them on this rank (S / cp)
 * T = b s rows
 *
 * Context parallelism splits each sequence here, in zigzag order: of its 2 cp equal parts cp rank r has
 * parts r and 2 cp - 1 - r, which balances the work of causal attention (model/attention/ring.c). Ulysses
 * ranks, u neighbours among the cp ranks, attend with the positions that all of them hold: cp rank r is one
 * of number r / u of cp / u such groups, whose positions are two longer parts, split in the same way. Key
 * ranges are those of the group. */

/* The least `first` and the largest `end` of the key ranges of some queries; first >= end: they see none. */
typedef struct { int64_t first, end; } KeyBounds;

typedef struct {
    Tensor all;                      /* [bytes] U8: memory of the tensors below, so that one copy takes all */
    Tensor token_i, target_i;        /* [T] I32 */
    Tensor loss_weight_T;            /* [T]: 1 if the prediction counts, 0 if not */
    /* [T] I32: for RoPE or learned positions; may restart after an end of document. */
    Tensor position_i;
    /* [T] I32: sample in global batch * S + index in the sequence; the key of dropout. */
    Tensor dropout_index_i;
    Tensor sample_i;                 /* [b] I32: sample in global batch */
    /* [N, T] of the N depths of multi-token prediction, absent without any: token and target k places after
     * each position of the sequence, in row k - 1, I32; what that prediction counts, as loss_weight_T but
     * with LoaderConfig.ahead_factor. Where the sequence has ended all are 0. */
    Tensor ahead_token_i, ahead_target_i, ahead_weight;
    /* [b, u s, 2] I32: keys [first, end) that a query sees; absent: causal attention. */
    Tensor key_range_i;
    /* Of the queries in each of the two parts of the group; `causal`: without document masks. */
    KeyBounds seen[2], causal[2];
    /* First index in the sequence of each of the rank's parts; cp 1: { 0, S / 2 }. */
    int64_t part[2];
} Batch;

typedef struct {
    /* S; b; samples of the largest step (over all micro-batches and dp) */
    int64_t sequence, micro, global;
    int     dp, dp_rank, cp, cp_rank;         /* sizes of the mesh axes and this rank's coordinates */
    int     ulysses;                          /* u, a divisor of cp; 0: 1 */
    uint64_t seed;                            /* of the order of samples */
    bool    reset_positions, reset_attention, mask_eod;   /* at each end of document */
    int32_t eod;                              /* id of the end of a document; -1: none */
    Dtype   loss_weight;                      /* type of loss_weight_T: F32, or F64 on the device `ref` */
    /* N depths of multi-token prediction, 0: none. The mean loss of depth k is over S - k positions of a
     * sequence instead of S, and counts ahead_factor / N; so its predictions count ahead_factor / N x S / (S
     * - k) each. */
    int     ahead;
    double  ahead_factor;
    /* Positions of a sample that count in each step, which has `global` samples; steps 0: all in every step.
     * Not beside `ahead`. */
    LengthSchedule lengths;
} LoaderConfig;

typedef struct {
    LoaderConfig  config;
    const Blend *blend;                       /* NULL: jotun's own order, of token_file */
    const TokenFile *token_file;              /* without a blend; the caller's */
    int64_t      first, tokens, samples;      /* of the split: first token, tokens, samples per epoch */
    SplitKind    kind;
    const SampleBlocks *blocks;                     /* cut the samples; NULL: they overlap. The caller's */
    /* Positions from it on have no loss weight and no tokens of their own: an evaluation of all samples ends
     * within a batch; 0: there is no end. */
    int64_t      end;
} Loader;

/* split: weights of train, valid and test ("969,30,1") over the sequences, with Megatron's rounding; NULL:
 * all of them. If the split has too few tokens for one sample: BAD_FILE with their number. */
Status loader_open(Loader *loader, const TokenFile *token_file, const char *split, SplitKind kind,
                   LoaderConfig config);
/* The samples are the blocks of a token file, in jotun's order. */
Status loader_open_blocks(Loader *loader, const SampleBlocks *blocks, SplitKind kind, LoaderConfig config);
/* The blend's sequence length must be the configuration's. The blend may be built after this call. */
Status loader_open_blend(Loader *loader, const Blend *blend, LoaderConfig config);
/* Samples of an epoch; of a blend, of its order, which is built. */
int64_t loader_epoch(const Loader *loader);
/* Tensors of one micro-batch on the `host` arena; a dry arena gives only shapes. */
Batch  loader_batch_new(const LoaderConfig *config, Arena *host);
/* Of a tensor [N, T] the row of depth k = 1, 2, ... */
static inline Tensor batch_ahead(Tensor x_NT, int64_t k)
{
    return tensor_flat(x_NT, (k - 1) * x_NT.dim[1], x_NT.dim[1]);
}
/* Copies a batch in host memory to another of the same sizes, in the memory of the queue's device; q NULL: in
 * host memory. One of both may be without `ahead`. */
void   batch_copy(Queue *q, Batch *to, const Batch *from);
/* A batch in pinned memory, which the queue reads when it comes to the copy. host_batch_free waits until the
 * last copy is done, so that the batch may be filled again. */
typedef struct { Batch batch; QueueEvent copied; bool leaving; } HostBatch;
void   host_batch_copy (Queue *q, Batch *to, HostBatch *from);
void   host_batch_free (HostBatch *b);
void   host_batch_close(HostBatch *b);
/* Sets `seen` from key_range_i, where it is present; whoever fills a batch calls it. */
void   batch_bound_keys(Batch *batch);
/* Fills micro-batch m of the step that begins at sample `first`: samples [first + (m dp + dp_rank) micro, +
 * micro) of the order.
 * BAD_FILE with the offset of an id at or beyond `vocabulary`, and if a file was truncated since it was
 * opened, which costs one stat per token file that the samples use. Allocates nothing. */
Status loader_fill(const Loader *loader, Batch *batch, int64_t first, int micro, int64_t vocabulary);
#endif
