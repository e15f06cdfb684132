#ifndef COMM_MESH_H
#define COMM_MESH_H
/* The mesh of ranks. Integers only, no communication.
 *
 * Two grids cover the ranks. The dense grid has the axes tensor (tp), context (cp), data (dp) and pipeline
 * (pp) parallelism. The expert grid divides the same ranks of a pipeline stage among expert-tensor (etp),
 * expert (ep) and expert-data (edp) parallelism: etp ep edp = tp cp dp. In both the first axis varies
 * fastest:
 *
 *     rank of the stage = tp + TP (cp + CP dp) = etp + ETP (ep + EP edp)       sizes in capitals
 *
 * which is Megatron-LM's order tp-cp-ep-dp-pp (its parallel_state.py). Ranks of tp, which communicate most,
 * therefore share a host. Pipeline stages vary slowest, or before dp where MESH_TP_PP_DP is chosen
 * (Megatron-LM's --use-tp-pp-dp-mapping). */
#include <stdbool.h>
#include "base/status.h"

/* A set of axes has the bits of one grid, with or without AXIS_PP. */
typedef enum { AXIS_TP = 1, AXIS_CP = 2, AXIS_DP = 4, AXIS_PP = 8, AXIS_ALL = 15,
               AXIS_ETP = 16, AXIS_EP = 32, AXIS_EDP = 64, AXIS_EXPERTS = 112 } Axis;
typedef enum { MESH_TP_DP_PP, MESH_TP_PP_DP } MeshOrder;
/* sizes of the axes, or coordinates on them */
typedef struct { int tp, cp, dp, pp, etp, ep, edp; } MeshSize;
/* What is chosen; etp and ep of 0 mean 1, for a model without experts. */
typedef struct { int tp, cp, pp, etp, ep; MeshOrder order; } MeshShape;
/* at: the coordinates of `rank`; world: the number of ranks. */
typedef struct { MeshSize size, at; MeshOrder order; int rank, world; } Mesh;

/* dp is world / (tp cp pp), edp is tp cp dp / (etp ep). BAD_OPTION where one of them is not a whole number,
 * with numbers of ranks, or sizes of the expert grid, that would work. */
Status   mesh_make  (Mesh *mesh, int world, int rank, MeshShape shape);
MeshSize mesh_coords(const Mesh *mesh, int rank);
/* The rank at tp, cp, dp and pp; the other coordinates follow from these and are not read. */
int      mesh_rank  (const Mesh *mesh, MeshSize at);
/* The ranks that differ from mesh->rank only along `axes`, ascending; returns how many. ranks NULL: the
 * number alone. The work is proportional to their number. */
int      mesh_group (const Mesh *mesh, int axes, int *ranks);

/* Hybrid sharding divides the group of `axes` into shard groups of `shard` ranks that follow each other in
 * it. Ranks at the same place of their shard groups are a replica group. These write the ones of mesh->rank
 * and return how many. `shard` divides the group's size: anything else is a CHECK. */
int      mesh_shard_group  (const Mesh *mesh, int axes, int shard, int *ranks);
int      mesh_replica_group(const Mesh *mesh, int axes, int shard, int *ranks);
#endif
