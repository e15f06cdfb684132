#ifndef COMM_MESH_H
#define COMM_MESH_H
/* Ranks as a grid: integers only. Megatron's order: tp runs fastest, then cp, dp, pp (tp-cp-ep-dp-pp). */
#include <stdbool.h>
#include "base/status.h"

typedef enum { AXIS_TP = 1, AXIS_CP = 2, AXIS_DP = 4, AXIS_PP = 8, AXIS_ALL = 15 } Axis;
typedef struct { int tp, cp, dp, pp; } MeshSize;                  /* also used for coordinates */
typedef struct { MeshSize size, at; int rank, world; } Mesh;

/* dp is derived: world / (tp cp pp). BAD_OPTION with what would work where that is no whole number. */
Status   mesh_make(Mesh *mesh, int world, int rank, int tp, int cp, int pp);
MeshSize mesh_coords(const Mesh *mesh, int rank);
int      mesh_rank(const Mesh *mesh, MeshSize at);
/* The ranks which differ from `at` only along the axes, ascending; ranks[] has room for world. Returns how many. */
int      mesh_group(const Mesh *mesh, int axes, int *ranks);
#endif
