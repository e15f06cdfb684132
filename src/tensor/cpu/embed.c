/* Embedding lookup and its gradient.
 * T rows   C channels   V rows of the table, which begins at vocabulary row `first` */
#include "base/exponential.h"
#include "base/sine.h"
#include "tensor/cpu/cpu.h"

/* The table's row of token t, or -1 when another rank of the tensor-parallel group holds it */
static int64_t table_row(Tensor table_VC, Tensor id_i, int64_t t, int64_t first)
{
    int64_t v = ((const int32_t *)id_i.data)[t] - first;
    return v >= 0 && v < table_VC.dim[0] ? v : -1;
}

/* y = scale table[id], or y += scale table[id]; both have one type */
static CLONES void embed_forward_rows(void *context, int64_t begin, int64_t end)
{
    const EmbedForward *a = context;
    int64_t C = a->y_TC.dim[1];
    float scale = (float)a->scale;
    bool copied = !a->add && a->scale == 1;
    TileBuffer x_tile, y_tile;
    for (int64_t t = begin; t < end; t++) {
        int64_t v = table_row(a->table_VC, a->id_i, t, a->first);
        size_t  bytes = (size_t)C * dtype_width(a->y_TC.dtype);
        if (copied && v >= 0) memcpy(tile_at(a->y_TC, t, 0), tile_at(a->table_VC, v, 0), bytes);
        if (!a->add && v < 0) memset(tile_at(a->y_TC, t, 0), 0, bytes);
        for (int64_t first = 0; first < C && !copied && v >= 0; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->table_VC, v, first, n);
            if (a->add) tile_load(y_tile.x, a->y_TC, t, first, n);
            for (int64_t c = 0; c < n; c++) y_tile.x[c] = (a->add ? y_tile.x[c] : 0) + scale * x[c];
            tile_store(a->y_TC, t, first, y_tile.x, n);
        }
    }
}

CPU(embed_forward, EmbedForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1], V = a->table_VC.dim[0];
    WANT(a->y_TC, T, C);
    WANT(a->id_i, T);
    WANT(a->table_VC, V, C);
    team_for(q->team, T, chunk_rows(C), embed_forward_rows, (void *)a);
}

/* log(10000) / (C/2 - 1): the logarithms of neighbouring frequencies differ by it. */
static double sinusoid_step(int64_t half) { return 9.210340371976182736 / (double)(half - 1); }

/* y += [sin(p w_k), cos(p w_k)], w_k = exp(-k step) */
static CLONES void sinusoid_rows(void *context, int64_t begin, int64_t end)
{
    const SinusoidForward *a = context;
    int64_t half = a->y_TC.dim[1] / 2;
    double  step = sinusoid_step(half);
    TileBuffer sine, cosine;
    for (int64_t t = begin; t < end; t++) {
        double p = (double)(((const int32_t *)a->position_i.data)[t] + a->first);
        for (int64_t first = 0; first < half; first += TILE) {
            int64_t n = tile_count(half, first);
            tile_load(sine.x, a->y_TC, t, first, n);
            tile_load(cosine.x, a->y_TC, t, half + first, n);
            for (int64_t k = 0; k < n; k++) {
                SineCosine x = sine_cosine(p * natural_exp(-step * (double)(first + k)));
                sine.x[k] += (float)x.sine, cosine.x[k] += (float)x.cosine;
            }
            tile_store(a->y_TC, t, first, sine.x, n);
            tile_store(a->y_TC, t, half + first, cosine.x, n);
        }
    }
}

CPU(sinusoid_forward, SinusoidForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->position_i, T);
    CHECK(C >= 4 && C % 2 == 0, "sinusoidal positions of %lld channels", (long long)C);
    team_for(q->team, T, chunk_rows(8 * C), sinusoid_rows, (void *)a);
}

/* dtable[id] += scale dy, token after token. A chunk of work owns columns and not tokens, because two tokens
 * with the same id add to the same row; so there is no race and the order of additions is fixed. */
static CLONES void embed_backward_columns(void *context, int64_t begin, int64_t end)
{
    const EmbedBackward *a = context;
    float scale = (float)a->scale;
    TileBuffer tile;
    for (int64_t t = 0; t < a->dy_TC.dim[0]; t++) {
        int64_t v = table_row(a->dtable_VC, a->id_i, t, a->first), n = end - begin;
        if (v < 0) continue;
        const float *dy = tile_read(&tile, a->dy_TC, t, begin, n);
        float *dx = row(a->dtable_VC, v) + begin;
        for (int64_t c = 0; c < n; c++) dx[c] += scale * dy[c];
    }
}

CPU(embed_backward, EmbedBackward)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1], V = a->dtable_VC.dim[0];
    WANT(a->dtable_VC, V, C);
    WANT(a->id_i, T);
    WANT(a->dy_TC, T, C);
    team_for(q->team, C, 64, embed_backward_columns, (void *)a);
}
