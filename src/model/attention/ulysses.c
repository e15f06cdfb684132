/* Ulysses (arXiv 2309.14509): an all-to-all exchanges heads for positions, so that each of u ranks has the
 * positions of all of them and 1 / u of the query heads, and another one exchanges them back.
 *
 * Where u divides the G key-value heads, each rank gets G / u of them. Elsewhere each rank gets those that
 * its query heads read, in copies, and the gradients of copies are summed by their owner.
 *
 * Messages are blocks [T, n] of own tokens' rows, one for each rank. Joined sequences [b, u s, n] have the
 * first parts of all ranks in order and then their second parts in reverse order: the parts of one rank of a
 * ring of fewer ranks, or the whole sequence. */
#include "base/integer.h"
#include "model/attention/core_attention.h"

enum { ULYSSES_MOST = 1024 };                    /* ranks: as --context-parallel-size has */

/* H / G query heads share a key-value head. Of Hu query heads, adjacent groups of equal size share one, which
 * are the largest that no border of H / G heads cuts. */
Ulysses ulysses_of(const ExecContext *ctx, int64_t T, int64_t columns)
{
    int64_t tp = comm_size(ctx->tp.comm), H = ctx->config->heads / tp;
    int64_t D = ctx->config->head_dim, E = model_value_dim(ctx->config), G = (columns - H * D) / (D + E);
    int u = context_size(ctx->cp.ulysses);
    int64_t shared = G > 0 ? common_divisor(H / G, H / u) : 1;
    CHECK(u <= ULYSSES_MOST && H % u == 0, "%lld query heads over %d Ulysses ranks", (long long)H, u);
    return (Ulysses){ .u = u, .j = context_rank(ctx->cp.ulysses), .b = ctx->batch->sample_i.dim[0], .T = T,
        .H = H, .G = G, .Hu = H / u, .Gu = G > 0 ? H / u / shared : 0, .D = D, .E = E };
}

bool ulysses_copies(Ulysses at) { return at.u * at.Gu != at.G; }

/* The columns [mine, mine + count) of own tokens' rows are columns [theirs, theirs + count) of rank j's. */
typedef struct { int64_t mine, theirs, count; } ColumnRun;

static int64_t column_runs(Ulysses at, UlyssesHeads which)
{
    int64_t pairs = ulysses_copies(at) ? 2 * at.Gu : 2;
    return (which & ULYSSES_QUERIES ? 1 : 0) + (which & ULYSSES_PAIRS ? pairs : 0);
}

/* Run i: the query heads first, which alone may be of any width; then keys, then values. */
static ColumnRun column_run(Ulysses at, UlyssesHeads which, int64_t width, int j, int64_t i)
{
    bool queries = which & ULYSSES_QUERIES;
    if (which == ULYSSES_QUERIES) return (ColumnRun){ j * at.Hu * width, 0, at.Hu * width };
    if (queries && i == 0) return (ColumnRun){ j * at.Hu * at.D, 0, at.Hu * at.D };
    int64_t count = ulysses_copies(at) ? 1 : at.Gu, runs = at.Gu / count;
    bool    values = (i - queries) / runs > 0;
    int64_t k = (i - queries) % runs, each = values ? at.E : at.D;
    int64_t query = j * at.Hu + k * (at.Hu / at.Gu);               /* the first one that reads key head k */
    int64_t mine  = (queries ? at.H  : 0) + (values ? at.G  : 0);  /* heads of D channels before them */
    int64_t their = (queries ? at.Hu : 0) + (values ? at.Gu : 0);
    return (ColumnRun){ mine * at.D + query / (at.H / at.G) * each, their * at.D + k * each, count * each };
}

/* Columns first .. first + count - 1 of the rows of x [b, s, n, width]: [b, s, count] */
static Tensor columns_of(Tensor x, int64_t first, int64_t count)
{
    CHECK(x.stride[2] == x.dim[3], "heads of a row are adjacent");
    x.dim[2] *= x.dim[3], x.stride[2] = 1;
    x.dim[3] = x.stride[3] = 1;
    return tensor_slice(x, 2, first, count);
}

static int64_t width_of(Tensor x) { return x.dim[2] * x.dim[3]; }

/* The rows that each rank is sent or sends, [u] blocks [b, s, columns] */
typedef struct { Tensor all; int64_t at[ULYSSES_MOST + 1]; } Blocks;

static void blocks_new(const ExecContext *ctx, Ulysses at, Blocks *blocks, const char *what, Tensor joined)
{
    int64_t count = tensor_count(joined) / at.u;
    blocks->all = tensor_new(ctx->scratch, what, joined.dtype, at.u * count);
    for (int j = 0; j <= at.u; j++) blocks->at[j] = j * count;
}

static Tensor block_of(const Blocks *blocks, Ulysses at, Tensor joined, int j)
{
    Tensor flat = tensor_flat(blocks->all, blocks->at[j], blocks->at[1]);
    return tensor_view(flat, at.b, at.T / at.b, width_of(joined), 1);
}

void ulysses_enter(const ExecContext *ctx, Ulysses at, UlyssesHeads which, Tensor y, Tensor x)
{
    size_t mark = arena_mark(ctx->scratch);
    Blocks to, from;
    blocks_new(ctx, at, &to,   "ulysses to ranks", y);
    blocks_new(ctx, at, &from, "ulysses from ranks", y);
    for (int j = 0; j < at.u; j++)
        for (int64_t i = 0; i < column_runs(at, which); i++) {
            ColumnRun run = column_run(at, which, x.dim[3], j, i);
            copy_strided(ctx->queue, (CopyStrided){
                .y = columns_of(block_of(&to, at, y, j), run.theirs, run.count),
                .x = columns_of(x, run.mine, run.count) });
        }
    comm_all_to_all(ctx->cp.ulysses, ctx->queue, from.all, from.at, to.all, to.at);  /* <-> cp: all-to-all */
    for (int j = 0; j < at.u; j++)
        for (int part = 0; part < 2; part++)
            copy_strided(ctx->queue, (CopyStrided){
                .y = columns_of(core_joined_part(y, at.u, j, part), 0, width_of(y)),
                .x = columns_of(core_joined_part(block_of(&from, at, y, j), 1, 0, part), 0, width_of(y)) });
    arena_reset(ctx->scratch, mark);
}

void ulysses_leave(const ExecContext *ctx, Ulysses at, UlyssesHeads which, Tensor x, Tensor y)
{
    size_t mark = arena_mark(ctx->scratch);
    Blocks to, from;
    blocks_new(ctx, at, &to,   "ulysses to ranks", y);
    blocks_new(ctx, at, &from, "ulysses from ranks", y);
    for (int j = 0; j < at.u; j++)
        for (int part = 0; part < 2; part++)
            copy_strided(ctx->queue, (CopyStrided){
                .y = columns_of(core_joined_part(block_of(&to, at, y, j), 1, 0, part), 0, width_of(y)),
                .x = columns_of(core_joined_part(y, at.u, j, part), 0, width_of(y)) });
    comm_all_to_all(ctx->cp.ulysses, ctx->queue, from.all, from.at, to.all, to.at);  /* <-> cp: all-to-all */
    for (int j = 0; j < at.u; j++)
        for (int64_t i = 0; i < column_runs(at, which); i++) {
            ColumnRun run = column_run(at, which, x.dim[3], j, i);
            Tensor mine = columns_of(x, run.mine, run.count);
            Tensor part = columns_of(block_of(&from, at, y, j), run.theirs, run.count);
            if (which == ULYSSES_PAIRS && ulysses_copies(at))
                accumulate(ctx->queue, (Accumulate){ .y = mine, .x = part });
            else copy_strided(ctx->queue, (CopyStrided){ .y = mine, .x = part });
        }
    arena_reset(ctx->scratch, mark);
}
