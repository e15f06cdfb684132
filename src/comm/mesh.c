#include "comm/mesh.h"

Status mesh_make(Mesh *mesh, int world, int rank, int tp, int cp, int pp)
{
    if (tp < 1 || cp < 1 || pp < 1)
        return fail(BAD_OPTION, "tp %d x cp %d x pp %d: each must be 1 or more", tp, cp, pp);
    long layer = (long)tp * cp * pp;
    if (world < layer)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d wants %ld ranks, and there are %d; start %ld ranks or a multiple",
                    tp, cp, pp, layer, world, layer);
    if (world % layer != 0)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d = %ld does not divide %d ranks; %ld or %ld ranks would do", tp, cp,
                    pp, layer, world, world / layer * layer, (world / layer + 1) * layer);
    CHECK(rank >= 0 && rank < world, "rank %d is not one of %d", rank, world);
    *mesh = (Mesh){ .size = { tp, cp, (int)(world / layer), pp }, .rank = rank, .world = world };
    mesh->at = mesh_coords(mesh, rank);
    return OK;
}

MeshSize mesh_coords(const Mesh *mesh, int rank)
{
    const MeshSize *n = &mesh->size;
    return (MeshSize){
        .tp = rank % n->tp,
        .cp = rank / n->tp % n->cp,
        .dp = rank / (n->tp * n->cp) % n->dp,
        .pp = rank / (n->tp * n->cp * n->dp),
    };
}

int mesh_rank(const Mesh *mesh, MeshSize at)
{
    const MeshSize *n = &mesh->size;
    return at.tp + n->tp * (at.cp + n->cp * (at.dp + n->dp * at.pp));
}

int mesh_group(const Mesh *mesh, int axes, int *ranks)
{
    int count = 0;
    for (int rank = 0; rank < mesh->world; rank++) {
        MeshSize at = mesh_coords(mesh, rank);
        if (((axes & AXIS_TP) || at.tp == mesh->at.tp) && ((axes & AXIS_CP) || at.cp == mesh->at.cp) &&
            ((axes & AXIS_DP) || at.dp == mesh->at.dp) && ((axes & AXIS_PP) || at.pp == mesh->at.pp))
            ranks[count++] = rank;
    }
    return count;
}
