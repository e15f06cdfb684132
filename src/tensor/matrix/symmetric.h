#ifndef TENSOR_MATRIX_SYMMETRIC_H
#define TENSOR_MATRIX_SYMMETRIC_H
/* Eigenvectors and orthonormal rows in double, for all back ends of a host. Loops over rows or columns
 * are divided among the threads of a team; a sum is taken by one of them in a fixed order, so that
 * results are bitwise the same for any number of threads.
 *
 * Vectors that a matrix leaves open, those of an eigenvalue 0 that several have and rows that depend on
 * others, are a basis of their space that depends on the space alone, so that roundings of the matrix
 * change it by roundings. Matrices are contiguous. */
#include "base/team.h"

/* The rows of work that symmetric_vectors takes, of n numbers each. */
static inline int64_t symmetric_work_rows(int64_t n) { return n + 5; }

/* x = VT diag(value) V for a symmetric x, [n, n] in `work`, which is overwritten: row i of `vector` [n, n] is
 * the vector of value[i]; values fall. The element of largest magnitude of a vector is positive, of several
 * the first. Eigenvalues within `noise` times the largest of 0 are 0 as to their vectors. */
void symmetric_vectors(Team *team, double *vector, double *value, double *work, int64_t n, double noise);

/* Replaces the rows of y [n, n] by orthonormal ones: the first i span what the first i did. A row of
 * which less than `noise` times the length of the longest is left by those before it gives none. work [n
 * + 2, n]. */
void orthonormal_rows_of(Team *team, double *y, double *work, int64_t n, double noise);
#endif
