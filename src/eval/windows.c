/* Batches of a text for perplexity, in the layout of data/loader.h. */
#include "eval/windows.h"

/* A window: its first id, the first one from which it predicts, and the end of these. */
typedef struct { int64_t first, from, end; } Window;

/* A block's context is what of the text is before it. */
static Window block_window(const Windows *w, int64_t i)
{
    SampleBlock block = block_at(w->blocks, i);
    int64_t first = block.first > w->overlap ? block.first - w->overlap : 0;
    return (Window){ first, block.first, block.first + block.tokens };
}

/* Those behind the last one are empty. */
static Window window_at(const Windows *w, int64_t i)
{
    int64_t S = w->config.sequence, first = i * (S - w->overlap);
    if (i >= windows_count(w)) return (Window){ 0 };
    Window x = w->blocks ? block_window(w, i) : (Window){ first, i ? first + w->overlap : 0, first + S };
    if (x.end > w->count - 1) x.end = w->count - 1;
    return x;
}

/* count ids have count - 1 predictions, of which the first window has S; the division rounds up. */
int64_t windows_count(const Windows *w)
{
    int64_t S = w->config.sequence, stride = S - w->overlap, rest = w->count - 1 - S;
    if (w->blocks) return w->blocks->samples;
    return rest > 0 ? 1 + (rest + stride - 1) / stride : 1;
}

int64_t windows_predictions(const Windows *w)
{
    int64_t sum = 0;
    if (!w->blocks) return w->count - 1;
    for (int64_t i = 0; i < w->blocks->samples; i++) sum += block_at(w->blocks, i).tokens;
    return sum;
}

int64_t windows_steps(const Windows *w)
{
    return (windows_count(w) + w->config.global - 1) / w->config.global;
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
        Window  x     = window_at(w, step * w->config.global + sample + row / held);
        int64_t at    = x.first + index;
        bool inside = at < x.end;
        ((int32_t *)batch->token_i.data)[row]         = inside ? w->ids[at] : 0;
        ((int32_t *)batch->target_i.data)[row]        = inside ? w->ids[at + 1] : 0;
        ((int32_t *)batch->position_i.data)[row]      = (int32_t)index;
        ((int32_t *)batch->dropout_index_i.data)[row] = (int32_t)((sample + row / held) * S + index);
        set_weight(batch->loss_weight_T, row, inside && at >= x.from);
    }
    for (int64_t i = 0; i < b; i++) ((int32_t *)batch->sample_i.data)[i] = (int32_t)(sample + i);
}
