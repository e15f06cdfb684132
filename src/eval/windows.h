#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H
/* A text as windows, for perplexity: window i predicts ids [i S + 1, (i + 1) S] from the S before them, so each id but the first is
 * predicted once. The last window is filled up with weight 0. */
#include "data/loader.h"

typedef struct { const int32_t *ids; int64_t count; LoaderConfig config; } Windows;      /* ids: the caller's */

int64_t windows_steps(const Windows *windows);                    /* global batches until all windows were seen */
void    windows_fill (const Windows *windows, Batch *batch, int64_t step, int micro);
#endif
