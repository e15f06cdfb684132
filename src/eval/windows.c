/* Batches of a text for perplexity, in the layout of data/loader.h. */
#include "eval/windows.h"

/* count ids have count - 1 predictions; both divisions round up. */
int64_t windows_steps(const Windows *w)
{
    int64_t windows = (w->count - 1 + w->config.sequence - 1) / w->config.sequence;
    return (windows + w->config.global - 1) / w->config.global;
}

/* Loss weights are F32, or F64 on the device `ref`. */
static void set_weight(Tensor weight, int64_t row, double value)
{
    if (weight.dtype == F64) ((double *)weight.data)[row] = value;
    else                     ((float  *)weight.data)[row] = (float)value;
}

/* The position in its sequence of the s-th of the `held` positions that this rank holds. Under context
 * parallelism a rank holds two parts of each sequence, one early and one late (data/loader.h). */
static int64_t sequence_position(const Batch *batch, int64_t held, int64_t s)
{
    return s < held / 2 ? batch->part[0] + s : batch->part[1] + s - held / 2;
}

void windows_fill(const Windows *w, Batch *batch, int64_t step, int micro)
{
    int64_t S = w->config.sequence, held = S / w->config.cp, b = w->config.micro;
    int64_t sample = ((int64_t)micro * w->config.dp + w->config.dp_rank) * b;
    for (int64_t row = 0; row < b * held; row++) {
        int64_t index = sequence_position(batch, held, row % held);
        int64_t at    = (step * w->config.global + sample + row / held) * S + index;
        bool inside = at + 1 < w->count;
        ((int32_t *)batch->token_i.data)[row]         = inside ? w->ids[at] : 0;
        ((int32_t *)batch->target_i.data)[row]        = inside ? w->ids[at + 1] : 0;
        ((int32_t *)batch->position_i.data)[row]      = (int32_t)index;
        ((int32_t *)batch->dropout_index_i.data)[row] = (int32_t)((sample + row / held) * S + index);
        set_weight(batch->loss_weight_T, row, inside);
    }
    for (int64_t i = 0; i < b; i++) ((int32_t *)batch->sample_i.data)[i] = (int32_t)(sample + i);
}
