/* The forward pass of flash attention. Scores are transposed, [keys][queries], so that the softmax of a query
 * stays in its lane and probabilities are a packed b as they are:
 *
 *     scoreT = k qT      k in place,         qT packed once for all keys
 *     oT    += vT probT  vT packed once for the strips of queries of a piece of work
 *
 * A piece of work is some strips of queries that share a key-value head: neighbours in the group of query
 * heads first, then positions. The keys of a paged cache are copied tile by tile where they lie in several
 * pages. */
#include <math.h>
#include <string.h>
#include "base/clones.h"
#include "base/exponential.h"
#include "tensor/cpu/flash/flash_run.h"

enum { STRIPS = FORWARD_QUERIES / 8 };               /* of the narrowest family */
enum { IN_PLACE = 2 };             /* the most single queries of a piece that read keys where they lie */

/* One strip of queries of one head, and what its softmax keeps from tile to tile. Arrays are [columns]. */
typedef struct {
    int64_t   s, h, used;              /* its first query, its head, queries in it */
    float     slope;                   /* of ALiBi; 0: none */
    FlashKeys seen, seen_by_all;       /* from the first to the last key that any sees; that all see */
    bool      begun;                   /* oT is set */
    GemmWord *q;                       /* packed qT, [words of D][columns] */
    float    *o;                       /* oT, [e_rows][columns] */
    int32_t   first_key[FLASH_COLUMNS], end_key[FLASH_COLUMNS];
    float     max[FLASH_COLUMNS], shrink[FLASH_COLUMNS];
    double    sum[FLASH_COLUMNS];
} Strip;

/* A thread's memory */
typedef struct {
    GemmWord *q, *k, *v, *scratch;
    float    *o, *score, *factor, *factor_T;
    void     *page_k, *page_v;         /* a tile of keys and values out of pages, as they are */
} Space;

static size_t space_make(Space *space, const FlashRun *r, char *memory)
{
    FlashSpace take = { memory, 0 };
    bool drops = r->x->rule.p > 0;
    space->q        = flash_take(&take, FORWARD_QUERIES * r->d_words);
    space->o        = flash_take(&take, FORWARD_QUERIES * r->e_rows);
    space->k        = flash_take(&take, FORWARD_KEYS * r->d_words);
    space->v        = flash_take(&take, FORWARD_KEYS * r->e_rows);
    space->score    = flash_take(&take, FORWARD_KEYS * r->columns);
    space->factor   = flash_take(&take, drops ? r->columns * FLASH_FACTORS : 0);
    space->factor_T = flash_take(&take, drops ? r->columns * FORWARD_KEYS : 0);
    space->scratch  = flash_take(&take, flash_store_words(r));
    space->page_k   = flash_take(&take, r->page > 0 ? FORWARD_KEYS * r->D : 0);
    space->page_v   = flash_take(&take, r->page > 0 ? FORWARD_KEYS * r->E : 0);
    return take.used;
}

static size_t thread_bytes(const FlashRun *r)
{
    Space space;
    return space_make(&space, r, NULL);
}

/* Columns beyond the last query see what it sees, so that they mask nothing more. One query alone is a row of
 * words, without other columns. */
static void strip_begin(const FlashRun *r, Strip *t, int64_t b)
{
    t->seen = t->seen_by_all = (FlashKeys){ 0, 0 };
    for (int64_t i = 0; i < (t->used == 1 ? 1 : r->columns); i++) {
        FlashKeys keys = flash_keys(r, b, t->s + flash_least(i, t->used - 1));
        t->first_key[i] = keys.first, t->end_key[i] = keys.end;
        t->max[i] = -INFINITY, t->shrink[i] = 1, t->sum[i] = 0;
        if (i == 0) t->seen_by_all = keys;
        if (keys.first > t->seen_by_all.first) t->seen_by_all.first = keys.first;
        if (keys.end < t->seen_by_all.end) t->seen_by_all.end = keys.end;
        if (keys.first == keys.end) continue;
        bool empty = t->seen.first == t->seen.end;
        if (empty || keys.first < t->seen.first) t->seen.first = keys.first;
        if (empty || keys.end > t->seen.end) t->seen.end = keys.end;
    }
    t->begun = false;
    t->slope = flash_slope(r, t->h);
    if (t->used == 1) r->g->copy_a(t->q, flash_at(r->x->q, b, t->s, t->h), 0, r->D, 1, r->form);
    else flash_columns(r, t->q, r->x->q, b, t->s, t->h, t->used);
}

/* One tile of keys: `key` is its first, k and v are its rows. */
static void strip_tile(const FlashRun *r, const Space *space, Strip *t, int64_t b, int64_t key, int64_t count,
                       FlashRows k)
{
    int64_t rows  = r->g->rows, begin = t->seen.first > key ? (t->seen.first - key) / rows * rows : 0;
    int64_t end   = flash_least(t->seen.end - key, count);
    if (begin >= end) return;
    float *score = space->score + begin * r->columns;
    k.at += begin * k.row;
    flash_multiply_rows(r, score, end - begin, k, t->q, r->d_words, t->used);
    if (r->x->rule.p > 0) {
        flash_dropout(r, space->factor, b, t->s, t->h, t->used, key, begin, end);
        r->g->pack_b_transposed((GemmWord *)space->factor_T, space->factor, FLASH_FACTORS, end, t->used,
                                GEMM_WORDS);
    }
    bool changed = r->f->forward(&(FlashForward){
        .score = space->score, .begin = (int)begin, .end = (int)end, .columns = (int)t->used,
        .masked = key + begin < t->seen_by_all.first || key + end > t->seen_by_all.end,
        .key = (int32_t)key, .first_key = t->first_key, .end_key = t->end_key,
        .factor = r->x->rule.p > 0 ? space->factor_T : NULL,
        .scale = (float)r->x->rule.scale, .softcap = (float)r->x->rule.softcap,
        .slope = t->slope, .ahead = flash_ahead(r, t->s, key),
        .max = t->max, .shrink = t->shrink, .sum = t->sum });
    if (t->begun && changed) r->f->multiply_rows(t->o, t->shrink, r->e_rows);
    begin = flash_words(r, begin);
    flash_multiply_strips(r, t->o, t->begun, r->e_rows, space->v, flash_words(r, count), begin,
                          space->score + begin * r->columns, flash_words(r, end) - begin, t->used);
    t->begun = true;
}

static int64_t position_at(const FlashRun *r, const int32_t *page, int64_t key)
{
    return ((const int32_t *)r->x->key_position_i.data)[page[key / r->page] * r->page + key % r->page];
}

/* How far the keys [key, key + count) are ahead of a strip's only query: below 0 where they are before. */
static void single_ahead(const FlashRun *r, float *ahead, const Strip *t, const FlashSpan *span, int64_t key,
                         int64_t count)
{
    const Flash *x = r->x;
    const int32_t *before = NULL, *page = NULL;
    if (x->key_distance_i.dim[0] > 0)
        before = (const int32_t *)x->key_distance_i.data + span->b * x->key_distance_i.stride[0];
    if (x->key_position_i.dim[0] > 0)
        page = (const int32_t *)x->page_i.data + span->pages * x->page_i.dim[1];
    for (int64_t u = 0; u < FORWARD_KEYS; u++) {
        int64_t at = key + u;
        if (page && u < count) at = position_at(r, page, at);
        ahead[u] = u >= count ? 0 : before ? (float)-before[at] : (float)flash_ahead(r, t->s, at);
    }
}

/* A tile of keys and values of one head: rows `at` to at + count - 1 of head `g` of sequence or page `b`.
 * `rows`: from `at` on there is memory of so many */
typedef struct { Tensor k, v; int64_t b, at, g, rows; } KeyTile;

/* Keys as single queries read them: where they lie, or packed, which pays for several queries. */
typedef struct { const char *rows; int64_t row, words; } SingleKeys;

static SingleKeys single_keys(const FlashRun *r, const Space *space, const KeyTile *tile, int64_t count,
                              int64_t queries)
{
    int64_t lanes = r->g->lanes, words = r->form == GEMM_WORDS ? r->D : r->D / 2;
    bool    whole = r->form == GEMM_WORDS ? r->D % lanes == 0 : r->D % (2 * lanes) == 0;
    if (queries <= IN_PLACE && whole && flash_cuts(count, lanes) * lanes <= tile->rows)
        return (SingleKeys){ flash_at(tile->k, tile->b, tile->at, tile->g),
                             tile->k.stride[1] * (int64_t)dtype_width(tile->k.dtype), words };
    flash_columns(r, space->k, tile->k, tile->b, tile->at, tile->g, count);
    return (SingleKeys){ 0 };
}

static FlashRows single_values(const FlashRun *r, const Space *space, const KeyTile *tile, int64_t count)
{
    bool copied = r->form == GEMM_HALVES || (r->form == GEMM_PAIRS && r->E % 2 != 0);
    if (copied) return flash_rows(r, space->v, tile->v, tile->b, tile->at, tile->g, count);
    return (FlashRows){ flash_at(tile->v, tile->b, tile->at, tile->g),
                        tile->v.stride[1] * (int64_t)dtype_width(tile->v.dtype) };
}

/* As strip_tile for a strip of one query. */
static void single_tile(const FlashRun *r, const Space *space, Strip *t, const FlashSpan *span,
                        int64_t key, int64_t count, SingleKeys k, FlashRows v, const char *next_rows)
{
    int64_t begin = t->seen.first > key ? t->seen.first - key : 0;
    int64_t end   = flash_least(t->seen.end - key, count);
    if (begin >= end) return;
    if (!t->begun) memset(t->o, 0, (size_t)r->E * sizeof *t->o);
    if (r->x->rule.p > 0) flash_dropout(r, space->factor, span->b, t->s, t->h, 1, key, begin, end);
    float ahead[FORWARD_KEYS];
    if (t->slope > 0) single_ahead(r, ahead, t, span, key, count);
    r->f->single(&(FlashSingle){
        .q = t->q, .k_rows = k.rows, .k_row = k.row, .k_words = k.words, .form = r->form,
        .next_rows = next_rows, .k = space->k, .v = v.at, .v_row = v.row, .depth = r->d_words, .E = r->E,
        .begin = (int)begin, .end = (int)end, .factor = r->x->rule.p > 0 ? space->factor : NULL,
        .scale = (float)r->x->rule.scale, .softcap = (float)r->x->rule.softcap,
        .slope = t->slope, .ahead = ahead, .max = t->max, .sum = t->sum, .o = t->o });
    t->begun = true;
}

static CLONES void flash_logarithms(double *to, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = natural_log(x[i]);
}

static void strip_end(const FlashRun *r, const Space *space, Strip *t, int64_t b)
{
    float  inverse[FLASH_COLUMNS] = { 0 };
    double log_sum[FLASH_COLUMNS];
    flash_logarithms(log_sum, t->sum, t->used);
    for (int64_t i = 0; i < t->used; i++) {
        bool  none = t->first_key[i] == t->end_key[i];
        float *lse = (float *)flash_at(r->x->lse, b, t->s + i, t->h);
        if (!none) inverse[i] = (float)(1 / t->sum[i]);
        *lse = none ? -INFINITY : (float)((double)t->max[i] + log_sum[i]);
    }
    if (!t->begun) memset(t->o, 0, (size_t)(r->e_rows * r->columns) * sizeof *t->o);
    if (t->used == 1) {
        for (int64_t e = 0; e < r->E; e++) t->o[e] *= inverse[0];
        dtype_convert((void *)flash_at(r->x->o, b, t->s, t->h), r->x->o.dtype, t->o, F32, r->E);
        return;
    }
    r->f->multiply_rows(t->o, inverse, r->e_rows);
    flash_store(r, r->x->o, b, t->s, t->h, t->o, 0, t->used, space->scratch, false);
}

static bool page_there(const FlashRun *r, int32_t page) { return page >= 0 && page < r->x->k.dim[0]; }

/* Rows of one head out of pages, as [1, count, 1, width] without gaps at `to`; zeros where no page is, whose
 * keys nobody sees. */
static Tensor tile_copied(const FlashRun *r, void *to, Tensor x, const int32_t *page, int64_t key, int64_t g,
                          int64_t count)
{
    size_t width = dtype_width(x.dtype) * (size_t)x.dim[3];
    char  *at = to;
    for (int64_t u = key; u < key + count; u++, at += width)
        if (page_there(r, page[u / r->page]))
            memcpy(at, flash_at(x, page[u / r->page], u % r->page, g), width);
        else memset(at, 0, width);
    return tensor_at(to, x.dtype, (const int64_t[]){ 1, count, 1, x.dim[3] }, 4);
}

static KeyTile tile_of(const FlashRun *r, const Space *space, const FlashSpan *span, int64_t key, int64_t g,
                       int64_t count)
{
    const Flash *x = r->x;
    if (r->page == 0) return (KeyTile){ x->k, x->v, span->b, key, g, r->U - key };
    const int32_t *page = (const int32_t *)x->page_i.data + span->pages * x->page_i.dim[1];
    int64_t first = key / r->page;
    if ((key + count - 1) / r->page == first && page_there(r, page[first]))
        return (KeyTile){ x->k, x->v, page[first], key % r->page, g, r->page - key % r->page };
    return (KeyTile){ .k = tile_copied(r, space->page_k, x->k, page, key, g, count),
                      .v = tile_copied(r, space->page_v, x->v, page, key, g, count), .rows = FORWARD_KEYS };
}

/* Where the keys lie that a thread reads after this tile: the next one of the head, or the first one of the
 * next head, which it claims next; NULL: unknown. */
static const char *keys_after(const FlashRun *r, const FlashSpan *span, const KeyTile *tile, int64_t key,
                              int64_t begin, int64_t end)
{
    const Flash *x = r->x;
    bool    last = key + FORWARD_KEYS >= end;
    int64_t next = last ? begin : key + FORWARD_KEYS, g = tile->g + last;
    if (g == r->G) return NULL;
    if (r->page == 0) return flash_at(x->k, span->b, next, g);
    int32_t page = ((const int32_t *)x->page_i.data)[span->pages * x->page_i.dim[1] + next / r->page];
    return page_there(r, page) ? flash_at(x->k, page, next % r->page, g) : NULL;
}

/* Strips first to first + strips - 1 of a span and the key-value head g */
static void piece(const FlashRun *r, const Space *space, const FlashSpan *span, int64_t g, int64_t first,
                  int64_t strips)
{
    Strip   strip[STRIPS];
    int64_t begin = r->U, end = 0, b = span->b;
    bool    wide = false;
    int64_t singles = 0;
    for (int64_t i = 0; i < strips; i++) {
        Strip *t = &strip[i];
        int64_t s = (first + i) / r->group * r->columns;
        t->h = g * r->group + (first + i) % r->group;
        t->s = span->first + s;
        t->used = flash_least(r->columns, span->rows - s);
        t->q = space->q + i * r->columns * r->d_words;
        t->o = space->o + i * r->columns * r->e_rows;
        wide |= t->used > 1;
        singles += t->used == 1;
        strip_begin(r, t, b);
        if (t->seen.first == t->seen.end) continue;
        if (t->seen.first < begin) begin = t->seen.first;
        if (t->seen.end > end) end = t->seen.end;
    }
    int64_t tiles_begin = begin / FORWARD_KEYS * FORWARD_KEYS;
    for (int64_t key = tiles_begin; key < end; key += FORWARD_KEYS) {
        int64_t count = flash_least(FORWARD_KEYS, (r->page > 0 ? end : r->U) - key);
        KeyTile tile = tile_of(r, space, span, key, g, count);
        if (wide) {
            FlashRows k = flash_rows(r, space->k, tile.k, tile.b, tile.at, tile.g, count);
            flash_depth(r, space->v, tile.v, tile.b, tile.at, tile.g, count);
            for (int64_t i = 0; i < strips; i++)
                if (strip[i].used > 1) strip_tile(r, space, &strip[i], b, key, count, k);
        }
        if (singles) {
            SingleKeys k = single_keys(r, space, &tile, count, singles);
            FlashRows  v = single_values(r, space, &tile, count);
            const char *next_rows = keys_after(r, span, &tile, key, tiles_begin, end);
            if (!next_rows) next_rows = k.rows;
            for (int64_t i = 0; i < strips; i++)
                if (strip[i].used == 1) single_tile(r, space, &strip[i], span, key, count, k, v, next_rows);
        }
    }
    for (int64_t i = 0; i < strips; i++) strip_end(r, space, &strip[i], b);
}

/* ---- spans ---- */

static int64_t span_strips(const FlashRun *r, int64_t rows)
{
    return flash_cuts(rows, r->columns) * r->group;
}

static int64_t span_pieces(const FlashRun *r, int64_t rows)
{
    return flash_cuts(span_strips(r, rows), FORWARD_QUERIES / r->columns);
}

/* Whether query s of a paged cache continues the span of the one before. With ALiBi a strip's positions are
 * consecutive, and those of its keys too. */
static bool span_continues(const FlashRun *r, int64_t s)
{
    const Flash *x = r->x;
    const int32_t *sequence = x->sequence_i.data, *position = x->position_i.data;
    if (sequence[s] != sequence[s - 1]) return false;
    return !x->rule.alibi || (x->key_position_i.dim[0] == 0 && position[s] == position[s - 1] + 1);
}

/* The spans of a paged cache, in the workspace. */
static void spans_make(FlashRun *r, void *memory)
{
    const Flash *x = r->x;
    r->span = memory, r->spans = 0;
    for (int64_t s = 0, pieces = 0; s < r->S; s++) {
        if (s == 0 || !span_continues(r, s)) {
            if (s > 0) pieces += span_pieces(r, r->span[r->spans - 1].rows);
            int64_t pages = ((const int32_t *)x->sequence_i.data)[s];
            r->span[r->spans++] = (FlashSpan){ .first = s, .pages = pages, .pieces = pieces };
        }
        r->span[r->spans - 1].rows++;
    }
}

/* The span of piece i of a key-value head, by halving */
static FlashSpan span_of(const FlashRun *r, int64_t i)
{
    int64_t low = 0, high = r->spans - 1;
    if (!r->span) {
        int64_t pieces = span_pieces(r, r->S), b = i / pieces;
        return (FlashSpan){ .b = b, .rows = r->S, .pieces = b * pieces };
    }
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (r->span[middle].pieces <= i) low = middle;
        else high = middle - 1;
    }
    return r->span[low];
}

static int64_t all_pieces(const FlashRun *r)
{
    if (!r->span) return r->B * span_pieces(r, r->S);
    return r->span[r->spans - 1].pieces + span_pieces(r, r->span[r->spans - 1].rows);
}

/* Head after head of a span, so that a thread has whole heads. Of a head the last positions first: under the
 * causal mask they see most keys, and short pieces at the end leave the least waiting. */
static void forward_thread(void *context, int thread, int threads)
{
    FlashRun *r = context;
    Space space;
    space_make(&space, r, r->memory + (size_t)thread * r->thread_bytes);
    int64_t most = FORWARD_QUERIES / r->columns;
    (void)threads;
    for (int64_t i; (i = team_claim(r->team, thread)) >= 0;) {
        FlashSpan span = span_of(r, i / r->G);
        int64_t strips = span_strips(r, span.rows), pieces = span_pieces(r, span.rows);
        int64_t of_span = i - span.pieces * r->G, first = (pieces - 1 - of_span % pieces) * most;
        piece(r, &space, &span, of_span / pieces, first, flash_least(most, strips - first));
        if (thread == 0) team_poll(r->team);
    }
}

static size_t spans_bytes(const Flash *x)
{
    return flash_paged(x) ? ((size_t)x->q.dim[1] * sizeof(FlashSpan) + 63) / 64 * 64 : 0;
}

size_t flash_forward_workspace(const Flash *x, int threads)
{
    return flash_bytes(x, threads, thread_bytes) + spans_bytes(x);
}

void flash_forward(Team *team, const Flash *x, void *workspace, size_t workspace_bytes)
{
    FlashRun r = flash_run_of(x, x->family);
    if (r.B * r.S * r.H * r.G == 0) return;
    size_t need = (r.thread_bytes = thread_bytes(&r)) * (size_t)team_size(team) + spans_bytes(x);
    CHECK(workspace_bytes >= need, "attention wants %zu bytes to work in, got %zu", need, workspace_bytes);
    r.memory = (char *)workspace + spans_bytes(x), r.team = team;
    if (flash_paged(x)) spans_make(&r, workspace);
    team_share(team, all_pieces(&r) * r.G);
    team_run(team, forward_thread, &r);
}
