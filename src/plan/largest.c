/* Which ranks of a pipeline stage may need the most memory, by arithmetic on the boundaries of shards.
 *
 * What differs between the ranks of a stage grows with three numbers: bytes on the persistent arena, what the
 * optimizer takes on scratch for its largest matrix, and the largest shard, which sums over replicas are
 * taken of. A rank that another one exceeds or equals in all three cannot need more than that one. */
#include "plan/largest.h"
#include <stdlib.h>

/* bytes: of weights, gradients and states that ZeRO shards; work: elements that the optimizer takes on
 * scratch at once; shard: elements of the largest shard, 0 without replicas */
typedef struct { int rank; int64_t bytes, work, shard; } RankShare;

/* Matrices that are cut over the ranks of tp or etp are iterated as many at a time as there are ranks, the
 * i-th of them by rank i of the cut (optim/muon.c). own: elements of their parts here; iterated: of the one
 * that this rank iterates, whole and with its buffers. */
typedef struct { int ranks, rank, count; int64_t own, iterated; } CutGroup;

static int64_t aligned(int64_t elements, Dtype type)
{
    int64_t bytes = elements * (int64_t)dtype_width(type);
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* Elements of param's tensor, without padding, within [first, end) of its block. */
static int64_t held(const Param *p, int64_t first, int64_t end)
{
    int64_t last = p->at + p->box[0] * p->box[1] * p->box[2];
    int64_t from = first > p->at ? first : p->at, to = end < last ? end : last;
    return to > from ? to - from : 0;
}

/* The bytes of state s of these elements, in a tensor for each type. */
static int64_t state_bytes(const Trainer *t, const ParamBlock *block, int s, int64_t first, int64_t end)
{
    int64_t count[DTYPES] = { 0 }, bytes = 0;
    for (int i = 0; i < block->params; i++) {
        const UpdateRule *rule = optimizer_rule(t->config->optimizer, &block->param[i]);
        if (s >= rule->states) continue;
        count[t->precision.state[rule->state[s].role]] +=
            state_held(&rule->state[s], &t->config->settings.sizes, block, i, first, end - first).count;
    }
    for (int type = 0; type < DTYPES; type++) bytes += aligned(count[type], (Dtype)type);
    return bytes;
}

/* The persistent bytes of elements [first, end) of a bucket. */
static int64_t owned_bytes(const Trainer *t, const Bucket *k, const ParamBlock *block, int64_t first,
                           int64_t end)
{
    const Precision *p = &t->precision;
    int64_t n = end - first, bytes = 0;
    if (k->zero_stage >= 3)        bytes += aligned(n, p->param);
    if (!t->config->training)      return bytes;
    if (k->zero_stage >= 2)        bytes += aligned(n, p->gradient);
    if (p->param != p->master || optimizer_averages(t->config->optimizer)) bytes += aligned(n, p->master);
    for (int s = 0; s < OPTIMIZER_STATES; s++) bytes += state_bytes(t, block, s, first, end);
    return bytes;
}

static void group_end(CutGroup *g, int64_t *work)
{
    if (g->own + g->iterated > *work) *work = g->own + g->iterated;
    g->count = 0;
    g->own = g->iterated = 0;
}

/* One more matrix [rows, columns], of which `part` elements are here: X and Y of its size, G and P of the
 * square of its smaller side, and where it is cut its parts of all ranks. */
static void group_add(CutGroup *g, const Param *p, int64_t part, int64_t *work)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    int64_t rows = p->global[r], columns = p->global[r + 1], side = rows < columns ? rows : columns;
    g->own += part;
    if (g->count++ == g->rank)
        g->iterated = 2 * rows * columns + 2 * side * side + (g->ranks > 1 ? part * g->ranks : 0);
    if (g->count == g->ranks) group_end(g, work);
}

/* Matrices that are whole here, cut over tp, cut over etp. */
enum { WHOLE, CUT_TP, CUT_ETP, CUTS };

static int cut_of(const Param *p, const CutGroup *group)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    Axis axis = p->split[r] ? p->split[r] : p->split[r + 1];
    int cut = axis == AXIS_TP ? CUT_TP : axis == AXIS_ETP ? CUT_ETP : WHOLE;
    return group[cut].ranks > 1 ? cut : WHOLE;
}

static void matrices_add(CutGroup *group, int64_t *work, const Trainer *t, const ParamBlock *block,
                         int64_t first, int64_t end)
{
    for (int i = 0; t->config->training && i < block->params; i++) {
        const Param *p = &block->param[i];
        const UpdateRule *rule = optimizer_rule(t->config->optimizer, p);
        if (rule->scratch && held(p, first, end) > 0) {
            int64_t taken = rule->scratch(p, &t->config->settings.sizes);
            if (taken > *work) *work = taken;
        }
        if (!rule->whole) continue;
        int64_t matrix = rule->granule(p), count = held(p, first, end) / matrix;
        for (int64_t m = 0; m < count; m++) group_add(&group[cut_of(p, group)], p, matrix, work);
    }
}

/* block [buckets]: as the tensor-parallel ranks with this coordinate store them. */
static RankShare share_of(const Trainer *t, const ParamBlock *block, int rank)
{
    const MeshSize *n = &t->mesh.size, at = mesh_coords(&t->mesh, rank);
    const int place[PARAM_FAMILIES] = { [PARAMS_DENSE] = at.cp + n->cp * at.dp, [PARAMS_EXPERTS] = at.edp };
    CutGroup group[CUTS] = { [WHOLE] = { .ranks = 1 }, [CUT_TP] = { .ranks = n->tp, .rank = at.tp },
                             [CUT_ETP] = { .ranks = n->etp, .rank = at.etp } };
    RankShare share = { .rank = rank };
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        int r = place[k->block.family] % comm_size(k->comms.shard);
        int64_t first = k->begin[r], end = k->begin[r + 1];
        share.bytes += owned_bytes(t, k, &block[i], first, end);
        matrices_add(group, &share.work, t, &block[i], first, end);
        if (comm_size(k->comms.replica) > 1 && end - first > share.shard) share.shard = end - first;
    }
    for (int c = 0; c < CUTS; c++) group_end(&group[c], &share.work);
    return share;
}

/* Whether b cannot need more than a. */
static bool covers(const RankShare *a, const RankShare *b)
{
    return a->bytes >= b->bytes && a->work >= b->work && a->shard >= b->shard;
}

/* Keeps the shares that no other exceeds; where they are too many, the last ones are left out. */
static int keep(RankShare *kept, int count, RankShare share)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        if (covers(&kept[i], &share)) return count;
    for (int i = 0; i < count; i++)
        if (!covers(&share, &kept[i])) kept[left++] = kept[i];
    if (left < LARGEST_MOST) kept[left++] = share;
    return left;
}

int largest_ranks(int ranks[LARGEST_MOST], const Trainer *t)
{
    const Buckets *b = &t->buckets;
    const MeshSize *n = &t->mesh.size;
    RankShare kept[LARGEST_MOST];
    int count = 0;
    ParamBlock *block = calloc((size_t)b->count + 1, sizeof *block);
    CHECK(block, "no memory for %d parameter blocks", b->count);
    for (int tp = 0; tp < n->tp; tp++) {
        ParamRanks place = { *n, t->mesh.at, t->config->sequence_parallel };
        place.at.tp = tp;
        for (int i = 0; i < b->count; i++)
            params_block(&block[i], b->config, b->bucket[i].block.family, b->bucket[i].block.index, &place);
        for (int data = 0; data < n->cp * n->dp; data++) {
            MeshSize at = { .tp = tp, .cp = data % n->cp, .dp = data / n->cp, .pp = t->mesh.at.pp };
            count = keep(kept, count, share_of(t, block, mesh_rank(&t->mesh, at)));
        }
    }
    free(block);
    for (int i = 0; i < count; i++) ranks[i] = kept[i].rank;
    return count;
}
