/* The mesh of ranks: coordinates, ranks and groups by integer arithmetic. A rank's place is its number in
 * the order with pipeline stages slowest; the other order is a permutation of it (place_of, rank_at). */
#include "comm/mesh.h"
#include <stdlib.h>

static int stage_size(const Mesh *mesh) { return mesh->size.tp * mesh->size.cp * mesh->size.dp; }

static Status expert_grid(Mesh *mesh, MeshShape shape)
{
    int etp = shape.etp ? shape.etp : 1, ep = shape.ep ? shape.ep : 1, stage = stage_size(mesh);
    if (etp < 1 || ep < 1)
        return fail(BAD_OPTION, "etp %d x ep %d: each must be 1 or more", etp, ep);
    if (stage % ((long)etp * ep) != 0)
        return fail(BAD_OPTION, "etp %d x ep %d = %ld does not divide the %d ranks of a pipeline stage; give "
                    "sizes whose product divides %d", etp, ep, (long)etp * ep,
                    stage, stage);
    mesh->size.etp = etp;
    mesh->size.ep  = ep;
    mesh->size.edp = stage / (etp * ep);
    return OK;
}

Status mesh_make(Mesh *mesh, int world, int rank, MeshShape s)
{
    if (s.tp < 1 || s.cp < 1 || s.pp < 1)
        return fail(BAD_OPTION, "tp %d x cp %d x pp %d: each must be 1 or more", s.tp, s.cp, s.pp);
    long replica = (long)s.tp * s.cp * s.pp;            /* ranks of one data-parallel replica */
    if (world < replica)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d needs %ld ranks, but there are %d; start %ld ranks or a multiple",
                    s.tp, s.cp, s.pp, replica, world, replica);
    if (world % replica != 0)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d = %ld does not divide the number of ranks, %d; "
                    "start %ld or %ld ranks",
                    s.tp, s.cp, s.pp, replica, world, world / replica * replica,
                    (world / replica + 1) * replica);
    CHECK(rank >= 0 && rank < world, "rank %d is not one of %d", rank, world);
    *mesh = (Mesh){ .size = { .tp = s.tp, .cp = s.cp, .dp = (int)(world / replica), .pp = s.pp },
                    .order = s.order, .rank = rank, .world = world };
    TRY(expert_grid(mesh, s));
    mesh->at = mesh_coords(mesh, rank);
    return OK;
}

/* place = tp + TP (cp + CP (dp + DP pp));  the other order: rank = tp + TP (cp + CP (pp + PP dp)) */
static int place_of(const Mesh *mesh, int rank)
{
    int inner = mesh->size.tp * mesh->size.cp, outer = rank / inner;
    if (mesh->order == MESH_TP_DP_PP) return rank;
    return rank % inner + inner * (outer / mesh->size.pp + mesh->size.dp * (outer % mesh->size.pp));
}

static int rank_at(const Mesh *mesh, int place)
{
    int inner = mesh->size.tp * mesh->size.cp, outer = place / inner;
    if (mesh->order == MESH_TP_DP_PP) return place;
    return place % inner + inner * (outer / mesh->size.dp + mesh->size.pp * (outer % mesh->size.dp));
}

MeshSize mesh_coords(const Mesh *mesh, int rank)
{
    const MeshSize *n = &mesh->size;
    int place = place_of(mesh, rank), in_stage = place % stage_size(mesh);
    return (MeshSize){
        .tp  = in_stage % n->tp,
        .cp  = in_stage / n->tp % n->cp,
        .dp  = in_stage / (n->tp * n->cp),
        .pp  = place / stage_size(mesh),
        .etp = in_stage % n->etp,
        .ep  = in_stage / n->etp % n->ep,
        .edp = in_stage / (n->etp * n->ep),
    };
}

int mesh_rank(const Mesh *mesh, MeshSize at)
{
    const MeshSize *n = &mesh->size;
    return rank_at(mesh, at.tp + n->tp * (at.cp + n->cp * (at.dp + n->dp * at.pp)));
}

/* ---- groups ---- */

/* One axis of a grid: its bit, its size, this rank's coordinate. */
typedef struct { Axis bit; int size, at; } GridAxis;
enum { GRID_AXES = 4 };

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int mesh_group(const Mesh *mesh, int axes, int *ranks)
{
    const MeshSize *n = &mesh->size, *at = &mesh->at;
    bool experts = axes & AXIS_EXPERTS;
    CHECK(!experts || !(axes & (AXIS_TP | AXIS_CP | AXIS_DP)), "axes %d are of two grids", axes);
    GridAxis pipeline = { AXIS_PP, n->pp, at->pp };
    GridAxis dense[GRID_AXES]  = { { AXIS_TP, n->tp, at->tp }, { AXIS_CP, n->cp, at->cp },
                                   { AXIS_DP, n->dp, at->dp }, pipeline };
    GridAxis expert[GRID_AXES] = { { AXIS_ETP, n->etp, at->etp }, { AXIS_EP, n->ep, at->ep },
                                   { AXIS_EDP, n->edp, at->edp }, pipeline };
    const GridAxis *grid = experts ? expert : dense;

    int stride[GRID_AXES], count = 1, first = place_of(mesh, mesh->rank);
    for (int a = 0, width = 1; a < GRID_AXES; width *= grid[a++].size) {
        bool varies = axes & (int)grid[a].bit;
        stride[a] = width;
        if (varies) first -= grid[a].at * width;
        if (varies) count *= grid[a].size;
    }
    for (int i = 0; ranks && i < count; i++) {
        int place = first, rest = i;
        for (int a = 0; a < GRID_AXES; a++) {
            if (!(axes & (int)grid[a].bit)) continue;
            place += rest % grid[a].size * stride[a];
            rest  /= grid[a].size;
        }
        ranks[i] = rank_at(mesh, place);
    }
    /* Places ascend; the other order of ranks does not where both dp and pp vary. */
    if (ranks && mesh->order != MESH_TP_DP_PP) qsort(ranks, (size_t)count, sizeof *ranks, ascending);
    return count;
}

/* Ranks of the group that follow each other, or every shard-th of them. */
static int group_part(const Mesh *mesh, int axes, int shard, bool replicas, int *ranks)
{
    int size = mesh_group(mesh, axes, NULL), mine = 0;
    CHECK(shard >= 1 && size % shard == 0, "shard groups of %d ranks do not divide a group of %d", shard,
          size);
    int *group = malloc((size_t)size * sizeof *group);
    CHECK(group, "no memory for %d ranks", size);
    mesh_group(mesh, axes, group);
    while (group[mine] != mesh->rank) mine++;
    int first = replicas ? mine % shard : mine / shard * shard, step = replicas ? shard : 1;
    int count = replicas ? size / shard : shard;
    for (int i = 0; i < count; i++) ranks[i] = group[first + i * step];
    free(group);
    return count;
}

int mesh_shard_group(const Mesh *mesh, int axes, int shard, int *ranks)
{
    return group_part(mesh, axes, shard, false, ranks);
}

int mesh_replica_group(const Mesh *mesh, int axes, int shard, int *ranks)
{
    return group_part(mesh, axes, shard, true, ranks);
}
