/* The functions of cuBLASLt that tensor/cuda/product_lt.c calls, as loops on the CPU. The library is
 * column-major:  D = op(A) op(B) + beta C + bias,  element (i, j) of a matrix at i + j stride, a bias for each row of D.
 *
 * It proposes three algorithms, the later the faster by the shim's events, or four (gpu_cpu_proposals): 0 and 2 add in the
 * order of k, 1 and 3 in the other order. So 2 must be the choice wherever 3 gives other bits. */
#include "tensor/cuda/cublaslt.h"
#include "order.h"
#include "streams.h"
#include <stdlib.h>
#include <string.h>
#include "tensor/dtype.h"
#include "tensor/half.h"

int gpu_cpu_proposals = 3, gpu_cpu_algorithm = -1;

namespace {
struct Desc   { int turned[2]; uint32_t epilogue; const void *bias; int bias_type; };
struct Layout { int type; int64_t rows, columns, stride; };

Dtype dtype_of(int type) { return type == LT_BF16 ? BF16 : type == LT_F16 ? F16 : F32; }

inline float element(const void *x, int type, int64_t i)
{
    if (type == LT_F32) return ((const float *)x)[i];
    const uint16_t bits = ((const uint16_t *)x)[i];
    return type == LT_BF16 ? bf16_decode(bits) : f16_decode(bits);
}

inline float entry(const void *x, const Layout *l, bool turned, int64_t i, int64_t j)
{
    return element(x, l->type, turned ? j + i * l->stride : i + j * l->stride);
}

int create(void **handle)       { *handle = malloc(1); return *handle == nullptr; }
int destroy(void *memory)       { free(memory); return 0; }
int preference_set(void *, int, const void *, size_t) { return 0; }
int preference_create(void **p) { return create(p); }

int desc_create(void **desc, int compute, int scale_type)
{
    Desc *d = (Desc *)calloc(1, sizeof *d);
    d->epilogue = LT_EPILOGUE_NONE;
    *desc = d;
    return compute != LT_COMPUTE_F32 || scale_type != LT_F32;
}

int desc_set(void *desc, int attribute, const void *value, size_t bytes)
{
    Desc *d = (Desc *)desc;
    if (attribute == LT_TRANSA || attribute == LT_TRANSB) d->turned[attribute - LT_TRANSA] = *(const int32_t *)value;
    else if (attribute == LT_EPILOGUE)     d->epilogue  = *(const uint32_t *)value;
    else if (attribute == LT_BIAS_POINTER) d->bias      = *(const void *const *)value;
    else if (attribute == LT_BIAS_TYPE)    d->bias_type = *(const int32_t *)value;
    else return 1;
    return bytes != (attribute == LT_BIAS_POINTER ? 8 : 4);
}

int layout_create(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    Layout *l = (Layout *)malloc(sizeof *l);
    *l = Layout{ type, (int64_t)rows, (int64_t)columns, stride };
    *layout = l;
    return stride < (int64_t)rows;
}

int heuristic(void *, void *, void *, void *, void *, void *, void *, int wanted, LtHeuristic *result, int *found)
{
    *found = wanted < gpu_cpu_proposals ? wanted : gpu_cpu_proposals;
    for (int i = 0; i < *found; i++) {
        result[i] = LtHeuristic{};
        result[i].algorithm.data[0] = (uint64_t)i;
    }
    return 0;
}

/* D of one product; all that the library reads at the call is copied. */
struct Work {
    Desc desc;
    Layout al, bl, cl, dl;
    const void *a, *b, *c;
    void *d, *workspace;
    float by, add;
    bool back, scribbles;
};

/* The workspace is overwritten, as it may be. */
void multiply(const Work &w)
{
    const Desc  *x = &w.desc;
    const int64_t m = w.dl.rows, n = w.dl.columns, k = x->turned[0] ? w.al.rows : w.al.columns;
    if (w.scribbles) *(uint64_t *)w.workspace = UINT64_MAX;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++) {
                const int64_t at = w.back ? k - 1 - l : l;
                sum += entry(w.a, &w.al, x->turned[0], i, at) * entry(w.b, &w.bl, x->turned[1], at, j);
            }
            sum *= w.by;
            if (w.add != 0) sum += w.add * entry(w.c, &w.cl, false, i, j);
            if (x->epilogue == LT_EPILOGUE_BIAS) sum += element(x->bias, x->bias_type, i);
            const Dtype dtype = dtype_of(w.dl.type);
            dtype_convert((char *)w.d + (i + j * w.dl.stride) * (int64_t)dtype_width(dtype), dtype, &sum, F32, 1);
        }
}

/* Shapes that do not fit are refused, as the library does. */
int matmul(void *, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
           const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const LtAlgorithm *algorithm,
           void *workspace, size_t bytes, void *stream)
{
    const Work w = { *(const Desc *)desc, *(const Layout *)a_layout, *(const Layout *)b_layout, *(const Layout *)c_layout,
                     *(const Layout *)d_layout, a, b, c, d, workspace, *(const float *)alpha, *(const float *)beta,
                     algorithm->data[0] % 2 == 1, bytes >= 8 };
    const int64_t m = w.dl.rows, n = w.dl.columns, k = w.desc.turned[0] ? w.al.rows : w.al.columns;
    if ((w.desc.turned[0] ? w.al.columns : w.al.rows) != m || (w.desc.turned[1] ? w.bl.columns : w.bl.rows) != k ||
        (w.desc.turned[1] ? w.bl.rows : w.bl.columns) != n || w.cl.rows != m || w.cl.columns != n || w.al.type != w.bl.type ||
        w.cl.type != w.dl.type)
        return 7;
    if (const int error = gpu_cpu_call(GPU_CPU_PRODUCT, gpu_cpu_device_of((gpuStream_t)stream))) return error;
    gpu_cpu_algorithm = (int)algorithm->data[0];
    gpu_cpu_enqueue((gpuStream_t)stream, [w] { multiply(w); });
    return 0;
}
}

/* GPU_CPU_FAIL=cublaslt: the library of the machine (tensor/cuda/cublaslt.c), which the test has hidden or replaced. */
extern "C" Status lt_open_library(Lt *lt);
extern "C" void   lt_close_library(Lt *lt);

extern "C" Status lt_open(Lt *lt)
{
    const char *fails = getenv("GPU_CPU_FAIL");
    if (fails && strcmp(fails, "cublaslt") == 0) return lt_open_library(lt);
    lt->Create            = create;
    lt->Destroy           = destroy;
    lt->MatmulDescCreate  = desc_create;
    lt->MatmulDescDestroy = destroy;
    lt->MatmulDescSetAttribute = desc_set;
    lt->MatrixLayoutCreate  = layout_create;
    lt->MatrixLayoutDestroy = destroy;
    lt->MatmulPreferenceCreate  = preference_create;
    lt->MatmulPreferenceDestroy = destroy;
    lt->MatmulPreferenceSetAttribute = preference_set;
    lt->MatmulAlgoGetHeuristic = heuristic;
    lt->Matmul = matmul;
    return OK;
}

extern "C" void lt_close(Lt *lt) { lt_close_library(lt); }
