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
Ulysses ulysses_of(const ExecContext *ctx, int64_t T, int64_t heads)
{
    int64_t tp = comm_size(ctx->tp.comm), H = ctx->config->heads / tp, G = (heads - H) / 2;
    int u = context_size(ctx->cp.ulysses);
    int64_t shared = G > 0 ? common_divisor(H / G, H / u) : 1;
    CHECK(u <= ULYSSES_MOST && H % u == 0, "%lld query heads over %d Ulysses ranks", (long long)H, u);
    return (Ulysses){ .u = u, .j = context_rank(ctx->cp.ulysses), .b = ctx->batch->sample_i.dim[0], .T = T,
        .H = H, .G = G, .Hu = H / u, .Gu = G > 0 ? H / u / shared : 0, .D = ctx->config->head_dim };
}

bool ulysses_copies(Ulysses at) { return at.u * at.Gu != at.G; }

/* The heads [mine, mine + count) of own tokens are heads [theirs, theirs + count) of rank j's. */
typedef struct { int64_t mine, theirs, count; } HeadRun;

static int64_t head_runs(Ulysses at, UlyssesHeads which)
{
    int64_t pairs = ulysses_copies(at) ? 2 * at.Gu : 2;
    return (which & ULYSSES_QUERIES ? 1 : 0) + (which & ULYSSES_PAIRS ? pairs : 0);
}

/* Run i: the query heads first, then keys, then values. */
static HeadRun head_run(Ulysses at, UlyssesHeads which, int j, int64_t i)
{
    bool queries = which & ULYSSES_QUERIES;
    if (queries && i == 0) return (HeadRun){ j * at.Hu, 0, at.Hu };
    int64_t count = ulysses_copies(at) ? 1 : at.Gu, runs = at.Gu / count;
    int64_t values = (i - queries) / runs, k = (i - queries) % runs;
    int64_t query = j * at.Hu + k * (at.Hu / at.Gu);               /* the first one that reads key head k */
    return (HeadRun){ (queries ? at.H : 0) + values * at.G + query / (at.H / at.G),
                      (queries ? at.Hu : 0) + values * at.Gu + k, count };
}

/* Heads first .. first + count - 1 of x [b, s, n, D] as rows of count D channels [b, s, count D] */
static Tensor head_rows(Tensor x, int64_t first, int64_t count)
{
    Tensor y = tensor_slice(x, 2, first, count);
    CHECK(x.stride[2] == x.dim[3], "heads of a row are adjacent");
    y.dim[2] = count * x.dim[3], y.stride[2] = 1;
    y.dim[3] = y.stride[3] = 1;
    return y;
}

/* The rows that each rank is sent or sends, [u] blocks [b, s, n, D] */
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
    return tensor_view(flat, at.b, at.T / at.b, joined.dim[2], joined.dim[3]);
}

void ulysses_enter(const ExecContext *ctx, Ulysses at, UlyssesHeads which, Tensor y, Tensor x)
{
    size_t mark = arena_mark(ctx->scratch);
    Blocks to, from;
    blocks_new(ctx, at, &to,   "ulysses to ranks", y);
    blocks_new(ctx, at, &from, "ulysses from ranks", y);
    for (int j = 0; j < at.u; j++)
        for (int64_t i = 0; i < head_runs(at, which); i++) {
            HeadRun run = head_run(at, which, j, i);
            copy_strided(ctx->queue, (CopyStrided){
                .y = head_rows(block_of(&to, at, y, j), run.theirs, run.count),
                .x = head_rows(x, run.mine, run.count) });
        }
    comm_all_to_all(ctx->cp.ulysses, ctx->queue, from.all, from.at, to.all, to.at);  /* <-> cp: all-to-all */
    for (int j = 0; j < at.u; j++)
        for (int part = 0; part < 2; part++)
            copy_strided(ctx->queue, (CopyStrided){
                .y = head_rows(core_joined_part(y, at.u, j, part), 0, y.dim[2]),
                .x = head_rows(core_joined_part(block_of(&from, at, y, j), 1, 0, part), 0, y.dim[2]) });
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
                .y = head_rows(core_joined_part(block_of(&to, at, y, j), 1, 0, part), 0, y.dim[2]),
                .x = head_rows(core_joined_part(y, at.u, j, part), 0, y.dim[2]) });
    comm_all_to_all(ctx->cp.ulysses, ctx->queue, from.all, from.at, to.all, to.at);  /* <-> cp: all-to-all */
    for (int j = 0; j < at.u; j++)
        for (int64_t i = 0; i < head_runs(at, which); i++) {
            HeadRun run = head_run(at, which, j, i);
            Tensor mine = head_rows(x, run.mine, run.count);
            Tensor part = head_rows(block_of(&from, at, y, j), run.theirs, run.count);
            if (which == ULYSSES_PAIRS && ulysses_copies(at))
                accumulate(ctx->queue, (Accumulate){ .y = mine, .x = part });
            else copy_strided(ctx->queue, (CopyStrided){ .y = mine, .x = part });
        }
    arena_reset(ctx->scratch, mark);
}
