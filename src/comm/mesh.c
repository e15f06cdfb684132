/* The mesh of ranks: coordinates, ranks and groups by integer arithmetic. */
#include "comm/mesh.h"

Status mesh_make(Mesh *mesh, int world, int rank, int tp, int cp, int pp)
{
    if (tp < 1 || cp < 1 || pp < 1)
        return fail(BAD_OPTION, "tp %d x cp %d x pp %d: each must be 1 or more", tp, cp, pp);
    long replica = (long)tp * cp * pp;                  /* ranks of one data-parallel replica */
    if (world < replica)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d needs %ld ranks, but there are %d; start %ld ranks or a multiple",
                    tp, cp, pp, replica, world, replica);
    if (world % replica != 0)
        return fail(BAD_OPTION,
                    "tp %d x cp %d x pp %d = %ld does not divide the number of ranks, %d; "
                    "start %ld or %ld ranks",
                    tp, cp, pp, replica, world, world / replica * replica, (world / replica + 1) * replica);
    CHECK(rank >= 0 && rank < world, "rank %d is not one of %d", rank, world);
    *mesh = (Mesh){ .size = { tp, cp, (int)(world / replica), pp }, .rank = rank, .world = world };
    mesh->at = mesh_coords(mesh, rank);
    return OK;
}

/* rank = tp + TP (cp + CP (dp + DP pp)), with the sizes in capitals; mesh_rank is the inverse. */
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

/* Visits all ranks, which is linear in the world; it is called only when comms are opened. */
int mesh_group(const Mesh *mesh, int axes, int *ranks)
{
    int count = 0;
    for (int rank = 0; rank < mesh->world; rank++) {
        MeshSize at = mesh_coords(mesh, rank);        /* must be equal on all axes that are not in `axes` */
        if (((axes & AXIS_TP) || at.tp == mesh->at.tp) && ((axes & AXIS_CP) || at.cp == mesh->at.cp) &&
            ((axes & AXIS_DP) || at.dp == mesh->at.dp) && ((axes & AXIS_PP) || at.pp == mesh->at.pp))
            ranks[count++] = rank;
    }
    return count;
}
