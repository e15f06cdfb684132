/* The numbers of tensor/cuda/cublaslt.h are those of the library's own headers, where they are installed. */
#include <stdio.h>
#include "tensor/cuda/cublaslt.h"
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(LT_F32, CUDA_R_32F);
SAME(LT_BF16, CUDA_R_16BF);
SAME(LT_F16, CUDA_R_16F);
SAME(LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(LT_NORMAL, CUBLAS_OP_N);
SAME(LT_TRANSPOSED, CUBLAS_OP_T);
SAME(LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(LT_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(LT_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(LT_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(LT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_REDUCTION_SCHEMES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(LT_REDUCE_AS_COMPUTED, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(LT_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(LT_ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(LT_ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(LT_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(sizeof(LtAlgorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(LtHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(LtHeuristic, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(LtHeuristic, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
/* The type of each function: where ours has an int, it is an enum, and where ours has a pointer to anything, one to a struct of the library. */
#define TYPE(function, ...) _Static_assert(_Generic(&function, __VA_ARGS__: 1, default: 0), #function)
TYPE(cublasLtCreate,             cublasStatus_t (*)(cublasLtHandle_t *));
TYPE(cublasLtDestroy,            cublasStatus_t (*)(cublasLtHandle_t));
TYPE(cublasLtMatmulDescCreate,   cublasStatus_t (*)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t));
TYPE(cublasLtMatmulDescDestroy,  cublasStatus_t (*)(cublasLtMatmulDesc_t));
TYPE(cublasLtMatmulDescSetAttribute, cublasStatus_t (*)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t));
TYPE(cublasLtMatrixLayoutCreate, cublasStatus_t (*)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t));
TYPE(cublasLtMatrixLayoutDestroy, cublasStatus_t (*)(cublasLtMatrixLayout_t));
TYPE(cublasLtMatmulPreferenceCreate,  cublasStatus_t (*)(cublasLtMatmulPreference_t *));
TYPE(cublasLtMatmulPreferenceDestroy, cublasStatus_t (*)(cublasLtMatmulPreference_t));
TYPE(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t (*)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t));
TYPE(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *, int *));
TYPE(cublasLtMatmul, cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t,
    const void *, cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *,
    cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t));
#define OURS(name, ...) _Static_assert(_Generic(((Lt *)0)->name, __VA_ARGS__: 1, default: 0), #name)
OURS(Create,             int (*)(void **));
OURS(Destroy,            int (*)(void *));
OURS(MatmulDescCreate,   int (*)(void **, int, int));
OURS(MatmulDescDestroy,  int (*)(void *));
OURS(MatmulDescSetAttribute, int (*)(void *, int, const void *, size_t));
OURS(MatrixLayoutCreate, int (*)(void **, int, uint64_t, uint64_t, int64_t));
OURS(MatrixLayoutDestroy, int (*)(void *));
OURS(MatmulPreferenceCreate,  int (*)(void **));
OURS(MatmulPreferenceDestroy, int (*)(void *));
OURS(MatmulPreferenceSetAttribute, int (*)(void *, int, const void *, size_t));
OURS(MatmulAlgoGetHeuristic, int (*)(void *, void *, void *, void *, void *, void *, void *, int, LtHeuristic *, int *));
OURS(Matmul, int (*)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *,
    void *, const LtAlgorithm *, void *, size_t, void *));
SAME(sizeof(cublasStatus_t), sizeof(int));
SAME(sizeof(cudaDataType_t), sizeof(int));

int main(void) { return 0; }
#else
int main(void)
{
    printf("skipped: cublasLt.h is not installed\n");
    return 77;
}
#endif
