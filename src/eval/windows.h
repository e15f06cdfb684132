#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H
/* Divides a text into windows for the measurement of perplexity. Window i predicts ids [i S + 1, (i + 1)
 * S] from the S ids before each of them, so every id but the first is predicted exactly once. Windows are
 * distributed over the data-parallel and context-parallel ranks as training samples are. What is beyond
 * the text in the last window and the last batch has loss weight 0. */
#include "data/loader.h"

typedef struct {
    const int32_t *ids;                /* [count], the text; the caller's */
    int64_t        count;              /* 1 or more */
    LoaderConfig   config;             /* sequence length S, batch sizes, this rank's dp and cp rank */
} Windows;

/* The number of global batches that contain all windows. */
int64_t windows_steps(const Windows *windows);
/* Fills this rank's part of micro-batch `micro` of global batch `step`; the batch's tensors are the
 * caller's. */
void    windows_fill (const Windows *windows, Batch *batch, int64_t step, int micro);
#endif
