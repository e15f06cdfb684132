#ifndef OPTIM_WHOLE_MATRIX_H
#define OPTIM_WHOLE_MATRIX_H
/* Updates that need a matrix as a whole, whatever ranks hold its parts, so that the result depends on the
 * layout by roundings alone. The matrices that are cut over n ranks are taken n at a time: rank r gets the
 * parts of the r-th one, computes what becomes of it and sends the parts of the result back. So the ranks
 * share the work, and each element is sent at most twice. That rank is the owner of the matrix. Ranks that
 * hold copies of a matrix, under ZeRO 0 and in the groups of hybrid sharding, each compute the same. */
#include "optim/optimizer.h"

/* One matrix of a piece, and where this rank's part of it begins in the piece. */
typedef struct { const OptimizerPiece *piece; int64_t matrix, at; } WholeMatrix;

typedef struct {
    const char *part, *gathered, *whole;       /* names of the tensors on scratch */
    bool    wide;                              /* compute gets a tall matrix transposed */
    /* of what is sent and computed */
    Dtype (*type)   (const OptimizerRun *run);
    /* of a part [local_rows local_columns]: what this rank sends, and what it does with what comes back */
    void  (*send)   (const OptimizerRun *run, const WholeMatrix *m, Tensor part_N);
    void  (*receive)(const OptimizerRun *run, const WholeMatrix *m, Tensor part_N);
    /* By the owner: the result for the matrix x_RC, of the same shape. It may be in x_RC, which is
     * overwritten, or on the scratch arena, which the caller resets. */
    Tensor(*compute)(const OptimizerRun *run, const WholeMatrix *m, Tensor x_RC);
} WholeMatrixRule;

int64_t whole_matrix_part(const WholeMatrix *m);                       /* elements of the rank's part */
int64_t whole_matrix_granule(const Param *param);                      /* of experts each one's matrix */
/* All matrices of pieces with this rule. <-> cut: all-to-all, where there is one */
void    whole_matrix_finish(const OptimizerRun *run, const UpdateRule *rule, const WholeMatrixRule *whole);

/* ---- rules whose states are of whole matrices ---- */
/* Each rank that has a part of a matrix has its states too and computes the whole update, from the parts of
 * the gradient that all of them send one another: equal bits, so that the states stay equal. */
typedef struct {
    /* The direction of matrix number `matrix` of the piece from its gradient g_RC, a sum over tokens, of the
     * same shape. It may be in g_RC, which is overwritten, or on the scratch arena, which the caller
     * resets. */
    Tensor (*direction)(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix, Tensor g_RC);
    double (*scale)(const OptimizerRun *run);          /* of the direction; NULL: 1 */
    bool     decay_last;
    bool     begins;                                   /* the first update leaves the weights as they are */
} WholeDirection;
/* <-> cut: all-gather, where there is one */
void    whole_matrix_update(const OptimizerRun *run, const OptimizerPiece *p, const WholeDirection *rule);
/* State s of matrix number `matrix` of the piece: [rows, columns]. */
Tensor  whole_matrix_state(const OptimizerPiece *p, int s, int64_t matrix, int64_t rows, int64_t columns);
/* Elements on scratch: so many copies of the matrix, and of squares of its longest side that has one, or with
 * `shorter` of the shorter side. */
int64_t whole_matrix_scratch(const Param *p, const StateSizes *sizes, int copies, int squares, bool shorter);
/* The number of this update, from 1. Only back ends whose host knows it have the operations of these
 * rules. */
int64_t whole_matrix_step(const OptimizerRun *run);
/* Whether this update does such work, which is noted in run->work; in a dry run whether it is measured. */
bool    whole_matrix_due(const OptimizerRun *run, Work work, bool due);
/* Vectors of the symmetric x_AA; those of eigenvalues below noise times the largest depend on their space
 * alone. */
typedef struct { Tensor vector_AA, value_A, work_WA; } Eigen;
Eigen   whole_matrix_eigen(const OptimizerRun *run, Tensor x_AA, double noise);
double  whole_matrix_noise(const OptimizerRun *run, int64_t side);  /* of eigenvalues, by rounding alone */
/* y_AA = x xT, and with `right` xT x; overwritten */
void    whole_matrix_gram(const OptimizerRun *run, Tensor y_AA, Tensor x_RC, bool right);
#endif
