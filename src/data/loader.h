#ifndef DATA_LOADER_H
#define DATA_LOADER_H
/* From token shards to batches. Which samples step k takes is a pure function of (seed, k, sizes), so a resume is one integer
 * and every layout sees the same samples. Sample i of a split is the tokens [i S, i S + S + 1) of the split's documents, laid end
 * to end; epoch e takes them in the order random_permute(key(seed, e), n, .). Or the samples are a blend's, in Megatron's order. */
#include "data/blend.h"
#include "tensor/tensor.h"

/*  b sequences of a micro-batch   S positions of a whole sequence   s of them held here (S / cp)   T = b s rows
 *  Context parallelism holds 2 of 2 cp equal parts: cp rank r has parts r and 2 cp - 1 - r, which balances causal work. */
typedef struct {
    Tensor token_i, target_i;        /* [T] I32 */
    Tensor loss_weight_T;                 /* [T] real: 1 where the prediction counts, 0 where not */
    Tensor position_i;               /* [T] I32: what RoPE and learned positions see (restarts after an end of document by option) */
    Tensor dropout_index_i;                  /* [T] I32: sample in global batch * S + index in the sequence: keys dropout */
    Tensor sample_i;                 /* [b] I32: sample in global batch */
    Tensor key_range_i;                /* [b, s, 2] I32: keys [first, end) each query sees; absent: causal */
    int64_t part[2];                 /* first index in the sequence of each held half; cp 1: { 0, S / 2 } */
} Batch;

typedef struct {
    int64_t sequence, micro, global;          /* S, b, samples a step (over all micro-batches and dp) */
    int     dp, dp_rank, cp, cp_rank;
    uint64_t seed;
    bool    reset_positions, reset_attention, mask_eod;
    int32_t eod;                              /* -1: none */
    Dtype   real;
} LoaderConfig;

typedef struct {
    LoaderConfig  config;
    const Blend *blend;                       /* NULL: our own order, of */
    const TokenFile *token_file;                       /* this pair's */
    int64_t      first, tokens, samples;
    SplitKind    kind;
    int64_t      shift;                       /* samples that earlier steps took beyond step x global: another global batch before a resume */
} Loader;

/* split: weights of train, valid, test ("969,30,1") over sequences: Megatron's rounding; NULL: all of it. tokens under one sample: BAD_FILE with how many there are. */
Status loader_open(Loader *loader, const TokenFile *token_file, const char *split, SplitKind kind, LoaderConfig config);
Status loader_open_blend(Loader *loader, const Blend *blend, LoaderConfig config);     /* the blend's sequence length is the shape's */
int    loader_micros(const Loader *loader);            /* micro-batches of a step on this rank: global / (micro dp) */
/* Tensors of one micro-batch on the `host` arena; dry arenas give shapes alone */
Batch  loader_batch_new(const LoaderConfig *config, Arena *host);
/* Micro-batch m of step k: samples [k global + (m dp + dp_rank) micro, + micro) of the order. Ids at or beyond `vocabulary` are BAD_FILE with their place;
 * so is a file that was cut since it was opened: one stat of a pair for its samples. */
Status loader_fill(const Loader *loader, Batch *batch, int64_t step, int micro, int64_t vocabulary);
#endif
