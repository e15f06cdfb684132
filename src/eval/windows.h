#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H
/* Divides a text into windows for the measurement of perplexity, as Megatron-LM does with --overlapping-eval
 * S - overlap. Window k has the ids from k (S - overlap) on and predicts the S that follow each of them. All
 * predictions of the first window count; of the others those of the first `overlap` ids are context only. So
 * every id but the first is predicted exactly once. Or a window predicts the tokens of one block. Windows are
 * distributed over the data-parallel and context-parallel ranks as training samples are. What is beyond the
 * text in the last window and the last batch has loss weight 0. */
#include "data/loader.h"

typedef struct {
    const int32_t *ids;                /* [count], the text; the caller's */
    int64_t        count;              /* 1 or more */
    LoaderConfig   config;             /* sequence length S, batch sizes, this rank's dp and cp rank */
    int64_t        overlap;            /* below S (rule_overlap of conf/rules.c) */
    const SampleBlocks
        *blocks; /* of B tokens each or fewer; token j is ids[j + 1]; NULL: windows of B. The caller's */
} Windows;

/* The number of ids that are predicted. */
int64_t windows_predictions(const Windows *windows);
/* The number of windows. */
int64_t windows_count(const Windows *windows);

/* The number of global batches that contain all windows. */
int64_t windows_steps(const Windows *windows);
/* Fills this rank's part of micro-batch `micro` of global batch `step`; the batch's tensors are the
 * caller's. */
void    windows_fill (const Windows *windows, Batch *batch, int64_t step, int micro);
#endif
