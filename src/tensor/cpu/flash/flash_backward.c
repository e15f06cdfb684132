/* The backward pass of flash attention. A piece of work is a tile of keys, for which it owns dk and dv.
 * Scores are [queries][keys], so that prob and dscore are a packed b as they are for
 *
 *     dvT += doT prob      dkT += qT dscore     over the queries of a tile
 *     dqT  = kT dscoreT                         over the keys of the tile, after a transposition
 *
 * which leaves 5 products for each pair of tiles. dq is added to directly, by one tile of keys after the
 * other: a counter for each tile of queries says how many have. Pieces are claimed in such an order that a
 * piece waits only for pieces that were claimed before it, so there is always one that waits for none. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include "tensor/cpu/flash/flash_run.h"

enum { STRIPS = BACKWARD_KEYS / 8, SPINS = 1000, FLASH_HEAD = 256 };

/* A thread's memory. Strips are [strip][rows][columns]. */
typedef struct {
    GemmWord *k_columns, *v_columns, *k_depth;     /* of the tile of keys */
    GemmWord *q, *d_o, *q_depth, *d_o_depth;       /* of the tile of queries */
    float    *score, *dscore, *factor;
    uint16_t *dscore_bf16;                         /* [strip][queries][columns], in a family of pairs */
    GemmWord *dscore_T;                            /* [words of keys][columns]: queries */
    float    *dk, *dv, *dq;
    GemmWord *scratch;
    float     lse[BACKWARD_QUERIES], delta[BACKWARD_QUERIES];
    int32_t   first_key[BACKWARD_QUERIES], end_key[BACKWARD_QUERIES];
    bool      begun[STRIPS];                       /* dk and dv of the strip are set */
    float     slope;                               /* of ALiBi, of the head; 0: none */
} Space;

static size_t space_make(Space *space, const FlashRun *r, char *memory)
{
    FlashSpace take = { memory, 0 };
    space->k_columns = flash_take(&take, BACKWARD_KEYS * r->d_words);
    space->v_columns = flash_take(&take, BACKWARD_KEYS * r->e_words);
    space->k_depth   = flash_take(&take, BACKWARD_KEYS * r->d_rows);
    space->q         = flash_take(&take, BACKWARD_QUERIES * r->d_words);
    space->d_o       = flash_take(&take, BACKWARD_QUERIES * r->e_words);
    space->q_depth   = flash_take(&take, BACKWARD_QUERIES * r->d_rows);
    space->d_o_depth = flash_take(&take, BACKWARD_QUERIES * r->e_rows);
    space->score     = flash_take(&take, BACKWARD_QUERIES * BACKWARD_KEYS);
    space->dscore    = flash_take(&take, BACKWARD_QUERIES * BACKWARD_KEYS);
    space->dscore_bf16 = flash_take(&take, r->f->pairs ? BACKWARD_QUERIES * BACKWARD_KEYS / 2 : 0);
    space->dscore_T  = flash_take(&take, r->columns * flash_words(r, BACKWARD_KEYS));
    space->factor    = flash_take(&take, r->x->rule.p > 0 ? BACKWARD_QUERIES * BACKWARD_KEYS : 0);
    space->dk        = flash_take(&take, BACKWARD_KEYS * r->d_rows);
    space->dv        = flash_take(&take, BACKWARD_KEYS * r->e_rows);
    space->dq        = flash_take(&take, r->columns * r->d_rows);
    space->scratch   = flash_take(&take, flash_store_words(r));
    return take.used;
}

static size_t thread_bytes(const FlashRun *r)
{
    Space space;
    return space_make(&space, r, NULL);
}

static int64_t query_tiles(const FlashRun *r) { return flash_cuts(r->S, BACKWARD_QUERIES); }

/* A tile of keys and a tile of queries of one head */
typedef struct { int64_t b, g, h, key, keys, s, queries; } Pair;
/* Queries of the tile */
typedef struct { int64_t begin, end; bool masked; } Queries;

/* The keys of each query of the tile; false if none sees any key of this tile. */
static bool pair_keys(const FlashRun *r, Space *space, const Pair *p)
{
    bool any = false;
    for (int64_t i = 0; i < p->queries; i++) {
        FlashKeys keys = flash_keys(r, p->b, p->s + i);
        space->first_key[i] = keys.first, space->end_key[i] = keys.end;
        any |= keys.first < p->key + p->keys && keys.end > p->key;
    }
    return any;
}

/* The queries that see a key of [key, key + count), from the first to the last, and whether not all of them
 * see all of these. `begin` is rounded down to a register tile's rows. */
static Queries queries_of(const FlashRun *r, const Space *space, const Pair *p, int64_t key, int64_t count)
{
    Queries q = { p->queries, 0, false };
    for (int64_t i = 0; i < p->queries; i++) {
        if (space->first_key[i] >= key + count || space->end_key[i] <= key) continue;
        if (q.begin > i) q.begin = i;
        q.end = i + 1;
    }
    q.begin = q.begin / r->g->rows * r->g->rows;
    for (int64_t i = q.begin; i < q.end; i++)
        q.masked |= space->first_key[i] > key || space->end_key[i] < key + count;
    return q;
}

/* dq += scale dscore k for one strip of queries, from query `first` of the tile on */
static void add_dq(const FlashRun *r, Space *space, const Pair *p, int64_t first)
{
    int64_t columns = r->columns, used = flash_least(columns, p->queries - first), begin = p->keys, end = 0;
    int64_t first_query = used, end_query = 0;
    for (int64_t i = 0; i < used; i++) {
        int64_t from = space->first_key[first + i] - p->key, to = space->end_key[first + i] - p->key;
        if (from < 0) from = 0;
        if (to > p->keys) to = p->keys;
        if (from >= to) continue;
        if (from < begin) begin = from;
        if (to > end) end = to;
        if (i < first_query) first_query = i;
        end_query = i + 1;
    }
    if (begin >= end) return;
    for (int64_t key = begin / columns * columns; key < end; key += columns) {
        int64_t at = key * BACKWARD_QUERIES + first * columns;
        const void *from = r->f->pairs ? (const void *)(space->dscore_bf16 + at) : space->dscore + at;
        r->g->pack_b_transposed(space->dscore_T + flash_words(r, key) * columns, from, columns, columns,
                                columns, r->f->pairs ? GEMM_PAIRS : GEMM_WORDS);
    }
    begin = r->f->pairs ? begin / 2 : begin;
    flash_multiply_strips(r, space->dq, false, r->d_rows, space->k_depth, flash_words(r, p->keys), begin,
                          space->dscore_T + begin * columns, flash_words(r, end) - begin, used);
    flash_store(r, r->dq, p->b, p->s + first, p->h, space->dq, first_query, end_query, space->scratch,
                true);
}

/* dq reads all queries of the tile. Those of [begin, end) that see no key of the strip have a dscore of 0. */
static void clear_dscore(const FlashRun *r, Space *space, int64_t first, int64_t begin, int64_t end)
{
    int64_t at = first * BACKWARD_QUERIES + begin * r->columns, count = (end - begin) * r->columns;
    if (r->f->pairs) memset(space->dscore_bf16 + at, 0, (size_t)count * sizeof *space->dscore_bf16);
    else memset(space->dscore + at, 0, (size_t)count * sizeof *space->dscore);
}

/* Behind an odd number of keys, dq's last pair has a key of zeros, whose dscore was computed of no score and
 * no factor of dropout: it may be infinite, and has to be 0 too. */
static void clear_pair(const FlashRun *r, Space *space, int64_t first, int64_t used, Queries seen)
{
    uint16_t *bf16 = space->dscore_bf16 + first * BACKWARD_QUERIES;
    if (!r->f->pairs || used % 2 == 0) return;
    for (int64_t i = seen.begin; i < seen.end; i++) bf16[i * r->columns + used] = 0;
}

/* prob and dscore of one strip of keys, from key `first` of the tile on, and what they add to dv and dk */
static void strip_pair(const FlashRun *r, Space *space, const Pair *p, int64_t first, FlashRows q,
                       FlashRows d_o)
{
    int64_t used = flash_least(r->columns, p->keys - first);
    float  *score = space->score + first * BACKWARD_QUERIES;
    float  *dscore = space->dscore + first * BACKWARD_QUERIES;
    uint16_t *bf16 = r->f->pairs ? space->dscore_bf16 + first * BACKWARD_QUERIES : NULL;
    float  *dk = space->dk + first * r->d_rows, *dv = space->dv + first * r->e_rows;
    bool   *begun = &space->begun[first / r->columns];
    Queries seen = queries_of(r, space, p, p->key + first, used);
    clear_dscore(r, space, first, 0, seen.begin < seen.end ? seen.begin : BACKWARD_QUERIES);
    if (seen.begin >= seen.end) return;
    int64_t rows = seen.end - seen.begin, at = seen.begin * r->columns;
    flash_multiply_rows(r, score + at, rows, (FlashRows){ q.at + seen.begin * q.row, q.row },
                        space->k_columns + first * r->d_words, r->d_words, used);
    flash_multiply_rows(r, dscore + at, rows, (FlashRows){ d_o.at + seen.begin * d_o.row, d_o.row },
                        space->v_columns + first * r->e_words, r->e_words, used);
    r->f->backward(&(FlashBackward){
        .score = score, .dprob = dscore, .dscore = bf16, .begin = (int)seen.begin, .end = (int)seen.end,
        .columns = (int)used, .masked = seen.masked, .key = (int32_t)(p->key + first),
        .first_key = space->first_key, .end_key = space->end_key,
        .factor = r->x->rule.p > 0 ? space->factor + first : NULL, .scale = (float)r->x->rule.scale,
        .softcap = (float)r->x->rule.softcap,
        .slope = space->slope, .ahead = flash_ahead(r, p->s, p->key + first),
        .lse = space->lse, .delta = space->delta });
    clear_dscore(r, space, first, seen.end, BACKWARD_QUERIES);
    clear_pair(r, space, first, used, seen);
    int64_t stride = flash_words(r, p->queries), from = flash_words(r, seen.begin);
    int64_t depth = flash_words(r, seen.end) - from;
    flash_multiply_strips(r, dv, *begun, r->e_rows, space->d_o_depth, stride, from, score + from * r->columns,
                          depth, used);
    flash_multiply_strips(r, dk, *begun, r->d_rows, space->q_depth, stride, from, dscore + from * r->columns,
                          depth, used);
    *begun = true;
}

static void pair_rest(const FlashRun *r, Space *space, const Pair *p)
{
    const Flash *x = r->x;
    for (int64_t i = 0; i < p->queries; i++) {
        space->lse[i]   = *(const float *)flash_at(x->lse, p->b, p->s + i, p->h);
        space->delta[i] = *(const float *)flash_at(x->delta, p->b, p->s + i, p->h);
    }
    FlashRows q   = flash_rows(r, space->q, x->q, p->b, p->s, p->h, p->queries);
    FlashRows d_o = flash_rows(r, space->d_o, x->d_o, p->b, p->s, p->h, p->queries);
    flash_depth(r, space->q_depth, x->q, p->b, p->s, p->h, p->queries);
    flash_depth(r, space->d_o_depth, x->d_o, p->b, p->s, p->h, p->queries);
    if (x->rule.p > 0) flash_dropout(r, space->factor, p->b, p->s, p->h, p->queries, p->key, 0, p->keys);
    for (int64_t key = 0; key < p->keys; key += r->columns) strip_pair(r, space, p, key, q, d_o);
}

/* Waits until all tiles of keys before this one have added to dq. */
static void wait_turn(_Atomic int32_t *added, int32_t tile)
{
    for (int spins = 0; atomic_load_explicit(added, memory_order_acquire) != tile; spins++)
        if (spins >= SPINS) sched_yield();
}

static void piece(FlashRun *r, Space *space, int64_t b, int64_t g, int64_t tile)
{
    Pair p = { .b = b, .g = g, .key = tile * BACKWARD_KEYS };
    p.keys = flash_least(BACKWARD_KEYS, r->U - p.key);
    flash_columns(r, space->k_columns, r->x->k, b, p.key, g, p.keys);
    flash_columns(r, space->v_columns, r->x->v, b, p.key, g, p.keys);
    flash_depth(r, space->k_depth, r->x->k, b, p.key, g, p.keys);
    memset(space->begun, 0, sizeof space->begun);
    for (p.h = g * r->group; p.h < (g + 1) * r->group; p.h++) {
        space->slope = flash_slope(r, p.h);
        for (int64_t i = 0; i < query_tiles(r); i++) {
            _Atomic int32_t *added = &r->added[(b * r->H + p.h) * query_tiles(r) + i];
            p.s = i * BACKWARD_QUERIES, p.queries = flash_least(BACKWARD_QUERIES, r->S - p.s);
            bool any = pair_keys(r, space, &p);
            if (any) pair_rest(r, space, &p);
            wait_turn(added, (int32_t)tile);
            for (int64_t s = 0; any && s < p.queries; s += r->columns) add_dq(r, space, &p, s);
            atomic_store_explicit(added, (int32_t)tile + 1, memory_order_release);
        }
    }
    for (int64_t key = 0; key < p.keys; key += r->columns) {
        int64_t used = flash_least(r->columns, p.keys - key), u = p.key + key;
        if (!space->begun[key / r->columns]) continue;
        flash_store(r, r->x->dk, b, u, g, space->dk + key * r->d_rows, 0, used, space->scratch, true);
        flash_store(r, r->x->dv, b, u, g, space->dv + key * r->e_rows, 0, used, space->scratch, true);
    }
}

/* What all threads share: the counters of tiles and, where dq cannot hold sums, dq in fp32. Returns bytes. */
static size_t shared_make(FlashRun *r, char *memory)
{
    FlashSpace take = { memory, 0 };
    r->added = flash_take(&take, r->B * r->H * query_tiles(r));
    r->dq = r->x->dq;
    if (r->dq.dtype == F32) return take.used;
    float *sums = flash_take(&take, r->B * r->S * r->H * r->D);
    r->dq = tensor_at(sums, F32, (const int64_t[]){ r->B, r->S, r->H, r->D }, 4);
    return take.used;
}

/* dq += its sums in fp32, of some of the rows [b, s] */
static void finish_dq(const FlashRun *r, int thread, int threads)
{
    int64_t rows = r->B * r->S, width = r->H * r->D;
    for (int64_t i = thread * rows / threads; i < (thread + 1) * rows / threads; i++)
        for (int64_t h = 0; h < r->H; h++) {
            const float *sum = (const float *)r->dq.data + i * width + h * r->D;
            void *at = (void *)flash_at(r->x->dq, i / r->S, i % r->S, h);
            float old[FLASH_HEAD];
            for (int64_t d = 0; d < r->D; d += FLASH_HEAD) {
                int64_t n = flash_least(FLASH_HEAD, r->D - d);
                char *part = (char *)at + d * (int64_t)dtype_width(r->x->dq.dtype);
                dtype_convert(old, F32, part, r->x->dq.dtype, n);
                for (int64_t j = 0; j < n; j++) old[j] += sum[d + j];
                dtype_convert(part, r->x->dq.dtype, old, F32, n);
            }
        }
}

/* Heads in groups of twice as many as there are threads: within a group the first tiles of all of them, then
 * the second ones, so that a piece seldom waits, and the tiles of queries stay in the cache. */
static void backward_thread(void *context, int thread, int threads)
{
    FlashRun *r = context;
    Space space;
    space_make(&space, r, r->memory + (size_t)thread * r->thread_bytes);
    int64_t heads = r->B * r->G, side = flash_least(heads, 2 * threads);
    int64_t tiles = flash_cuts(r->U, BACKWARD_KEYS);
    bool narrow = r->x->dq.dtype != F32;
    if (thread == 0)
        for (int64_t i = 0; i < r->B * r->H * query_tiles(r); i++) atomic_init(&r->added[i], 0);
    if (thread == 0 && narrow) memset(r->dq.data, 0, tensor_bytes(r->dq));
    team_barrier(r->team);
    for (int64_t i; (i = atomic_fetch_add(&r->next, 1)) < heads * tiles;) {
        int64_t first = i / (side * tiles) * side, width = flash_least(side, heads - first);
        int64_t within = i - first * tiles, bg = first + within % width;
        piece(r, &space, bg / r->G, bg % r->G, within / width);
        if (thread == 0) team_poll(r->team);
    }
    if (!narrow) return;
    team_barrier(r->team);
    finish_dq(r, thread, threads);
}

size_t flash_backward_workspace(const Flash *x, int threads)
{
    FlashRun r = flash_run_of(x, x->family);
    size_t   bytes = flash_bytes(x, threads, thread_bytes);
    return bytes > 0 ? bytes + shared_make(&r, NULL) : 0;
}

void flash_backward(Team *team, const Flash *x, void *workspace, size_t workspace_bytes)
{
    FlashRun r = flash_run_of(x, x->family);
    if (r.B * r.S * r.H * r.G == 0) return;
    r.thread_bytes = thread_bytes(&r);
    size_t shared = shared_make(&r, workspace), need = shared + r.thread_bytes * (size_t)team_size(team);
    CHECK(workspace_bytes >= need, "attention wants %zu bytes to work in, got %zu", need, workspace_bytes);
    r.memory = (char *)workspace + shared, r.team = team;
    team_run(team, backward_thread, &r);
}
