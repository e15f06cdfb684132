#ifndef OPTIM_STATE_H
#define OPTIM_STATE_H
/* The states of optimizers: their names, types and shapes, and which part of one a rank holds. Who makes,
 * saves, loads or counts states asks here, so that a state of another shape than its parameter's is a row of
 * its rule and a case of state.c.
 *
 * A state with a number for each element is sharded as its parameter is, and one for each 8-bit code block
 * too, unless a block is cut: a granule ends where blocks do. All other states are whole: each rank that
 * updates elements of the parameter holds all their numbers, and computes them from sums over the logical
 * tensor, so that all copies are equal to the bit. One rank saves them. */
#include "model/params.h"
#include "tensor/precision.h"

/* One number for each element; for each row, each column, of a matrix; for each of its blocks;
 * ONEBIT_NUMBERS (tensor/onebit.h) for the whole matrix; one for each CODE_BLOCK elements of a matrix in
 * row-major order, of which the last may be fewer. A parameter is one matrix, or one for each expert; a
 * vector is a matrix with columns of 1. */
typedef enum { PER_ELEMENT, PER_ROW, PER_COLUMN, PER_BLOCK, PER_TENSOR, PER_CODE_BLOCK,
    /* Of rules that take whole matrices: each rank that updates a part of a matrix of rows R and columns C
     * holds all of [R, C]; [R, R] and [C, C], none where the side is longer than StateSizes.longest; of the
     * shorter side S and the longer L the vectors of a subspace, [rank, S], and what is projected on it,
     * [R, rank] or [rank, C], with L instead of the side that is projected, and its code blocks. */
    WHOLE_MATRIX, WHOLE_LEFT, WHOLE_RIGHT, WHOLE_SUBSPACE, WHOLE_PROJECTED, WHOLE_CODE_BLOCK,
    /* Of rules whose data-parallel ranks, the workers, keep their own gradients: one for each element and
     * each of them, a tensor [workers, ...]; one for each element, of which a worker has those that it
     * sums: equal parts of the bucket's elements. */
    PER_WORKER, PER_SUMMED } StateShape;

/* What the shapes of states depend on: vectors of a subspace, at most the shorter side of a matrix; the
 * longest side that has a square state; of each family of parameters the workers, 0 as 1, and which of them
 * this rank is. */
typedef struct { int64_t rank, longest, workers[PARAM_FAMILIES], worker[PARAM_FAMILIES]; } StateSizes;
int64_t state_rank(const StateSizes *sizes, int64_t rows, int64_t columns);     /* at most the shorter side */
/* Numbers of a matrix, of a shape from WHOLE_MATRIX on. */
int64_t state_whole_count(StateShape shape, const StateSizes *sizes, int64_t rows, int64_t columns);

/* In checkpoints a state is <tensor>.<name>; its type is Precision.state[role]. */
typedef struct { const char *name; StateRole role; StateShape shape; } OptimizerState;

/* The code blocks of a matrix of which a rank has local_rows and local_columns. Where tensor parallelism cuts
 * blocks, all ranks that have parts of the matrix hold all its numbers. */
typedef struct { bool cut; int64_t of_matrix; } CodeBlocks;
CodeBlocks state_code_blocks(int64_t rows, int64_t columns, int64_t local_rows, int64_t local_columns);
/* The granule of a rule with such states: as few elements as end with a block. */
int64_t     state_code_granule(const Param *param);

/* Elements that a worker sums of a bucket with so many, the last ones fewer: whole bytes of signs. */
int64_t     state_summed_part(int64_t count, int64_t workers);
/* Whether the part of the state that a rank has is no other's, nor a copy: PER_WORKER, PER_SUMMED. Such a
 * state is saved as it is held. */
bool        state_of_worker(const OptimizerState *state);

enum { OPTIMIZER_STATES = 6 };                         /* the most states of any rule */

/* The state's part that a rank holds which updates the elements [first, first + count) of the block, of its
 * entry p: named as in checkpoints, with the shape of the whole state in `global`; .local is left to the
 * caller. .count is 0 where the rank updates none of them. */
TensorShard state_held (const OptimizerState *state, const StateSizes *sizes, const ParamBlock *block, int p,
                        int64_t first, int64_t count);
/* The part that a rank saves which counts these elements: over all ranks that save the parameter each number
 * is saved once. */
TensorShard state_saved(const OptimizerState *state, const StateSizes *sizes, const ParamBlock *block, int p,
                        int64_t first, int64_t count);
/* Rows of a block, which follow each other: of a query or key weight those of a head, of other matrices one;
 * of biases one element, of other vectors all. */
int64_t     state_block_rows(const Param *param);
#endif
