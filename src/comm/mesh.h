#ifndef COMM_MESH_H
#define COMM_MESH_H
/* The mesh: ranks as a grid with the axes tensor (tp), context (cp), data (dp) and pipeline (pp)
 * parallelism. Integers only, no communication. Ranks are numbered in Megatron-LM's order tp-cp-ep-dp-pp
 * (its parallel_state.py): tp varies fastest, so that tensor-parallel ranks, which communicate most,
 * share a host. */
#include <stdbool.h>
#include "base/status.h"

typedef enum { AXIS_TP = 1, AXIS_CP = 2, AXIS_DP = 4, AXIS_PP = 8, AXIS_ALL = 15 } Axis;
typedef struct { int tp, cp, dp, pp; } MeshSize;          /* sizes of the axes, or coordinates on them */
/* at: the coordinates of `rank`; world: the number of ranks, the product of the sizes. */
typedef struct { MeshSize size, at; int rank, world; } Mesh;

/* dp is world / (tp cp pp). BAD_OPTION where that is not a whole number, with the numbers of ranks that
 * would work. */
Status   mesh_make(Mesh *mesh, int world, int rank, int tp, int cp, int pp);
MeshSize mesh_coords(const Mesh *mesh, int rank);
int      mesh_rank(const Mesh *mesh, MeshSize at);
/* Writes the ranks that differ from mesh->rank only along `axes` (a bit set of Axis), ascending, and
 * returns how many. ranks has a capacity of mesh->world. */
int      mesh_group(const Mesh *mesh, int axes, int *ranks);
#endif
