#ifndef TENSOR_CUDA_CUBLASLT_H
#define TENSOR_CUDA_CUBLASLT_H
/* The part of cuBLASLt's binary interface that matrix products need, declared here since the library is
 * opened at run time: a build needs no headers of it, and a machine without it still runs. Versions 12 and
 * 13. tests/tensor/cublaslt_test.c compares the numbers with the headers where they are installed. */
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { LT_F32 = 0, LT_F16 = 2, LT_BF16 = 14 };              /* cudaDataType_t */
enum { LT_COMPUTE_F32 = 68 };                               /* cublasComputeType_t: without TF32 */
enum { LT_NORMAL = 0, LT_TRANSPOSED = 1 };                  /* cublasOperation_t */
enum { LT_EPILOGUE_NONE = 1, LT_EPILOGUE_BIAS = 4 };        /* cublasLtEpilogue_t */
/* cublasLtMatmulDescAttributes_t */
enum { LT_TRANSA = 3, LT_TRANSB = 4, LT_EPILOGUE = 7, LT_BIAS_POINTER = 8, LT_BIAS_TYPE = 26 };
/* cublasLtMatmulPreferenceAttributes_t; alignments of B, C and D follow that of A */
enum { LT_MAX_WORKSPACE = 1, LT_REDUCTION_SCHEMES = 3, LT_ALIGNMENT_A = 5 };
/* cublasLtReductionScheme_t, of algorithms where several blocks add to an element of D: in fp32 beside it.
 * The others add in the type of D and would round more than once. */
enum { LT_REDUCE_AS_COMPUTED = 2 };

typedef struct { uint64_t data[8]; } LtAlgorithm;
typedef struct { LtAlgorithm algorithm; size_t workspace; int status; float waves; int reserved[4]; }
    LtHeuristic;

/* The functions, named cublasLt<name>; each returns 0 for success. */
#define LT_FUNCTIONS(ROW)                                                                               \
    ROW(Create,                       (void **handle))                                                  \
    ROW(Destroy,                      (void *handle))                                                   \
    ROW(MatmulDescCreate,             (void **desc, int compute, int scale_type))                       \
    ROW(MatmulDescDestroy,            (void *desc))                                                     \
    ROW(MatmulDescSetAttribute,       (void *desc, int attribute, const void *value, size_t bytes))     \
    ROW(MatrixLayoutCreate,           (void **layout, int type, uint64_t rows, uint64_t columns,        \
                                       int64_t stride))                                                 \
    ROW(MatrixLayoutDestroy,          (void *layout))                                                   \
    ROW(MatmulPreferenceCreate,       (void **preference))                                              \
    ROW(MatmulPreferenceDestroy,      (void *preference))                                               \
    ROW(MatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value,              \
                                       size_t bytes))                                                   \
    ROW(MatmulAlgoGetHeuristic,       (void *handle, void *desc, void *a, void *b, void *c, void *d,    \
                                       void *preference, int wanted, LtHeuristic *result, int *found))  \
    ROW(Matmul,                       (void *handle, void *desc, const void *alpha, const void *a,      \
                                       void *a_layout, const void *b, void *b_layout, const void *beta, \
                                       const void *c, void *c_layout, void *d, void *d_layout,          \
                                       const LtAlgorithm *algorithm, void *workspace, size_t bytes,     \
                                       void *stream))

typedef struct {
    void *library;
#define LT_MEMBER(name, arguments) int (*name) arguments;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
} Lt;

#ifdef __cplusplus
extern "C" {
#endif
/* Opens the library; in tests on the CPU the functions are loops (tests/tensor/shim/cublaslt.cpp). BAD_OPTION
 * where it cannot be opened. lt_close also after a failure. */
Status lt_open (Lt *lt);
void   lt_close(Lt *lt);
#ifdef __cplusplus
}
#endif
#endif
