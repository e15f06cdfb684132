/* Matrix products by cuBLASLt. The library is column-major: a row-major d = a b is its dT = bT aT, so its
 * first matrix is our b.
 *
 * It proposes several algorithms for a shape, and its first is often not the fastest. They are timed at the
 * first product of a shape, and a faster one is taken where it adds in the same order as the first, so that
 * the results of a run do not depend on times. */
#include "tensor/cuda/product.h"

#include <stdlib.h>
#include <string.h>
#include "tensor/cuda/cublaslt.h"
#include "tensor/cuda/timing.h"

enum { PROPOSALS = 8, REPEATS = 5, PLANS = 512, ALIGNMENTS = 5 };

/* What a choice of an algorithm depends on. No padding: compared as bytes. */
typedef struct {
    int64_t m, n, k, d_stride, a_stride, b_stride, c_stride;
    int32_t turned, types, added, aligned;
} ProductKey;
typedef struct {
    ProductKey    key;
    void       *desc, *a, *b, *c, *d;              /* descriptors, of the library's a and b */
    LtAlgorithm algorithm;
} ProductPlan;

struct Products {
    Lt    lt;
    void *handle;
    int   plans;
    ProductPlan plan[PLANS];
};

/* Of cublasStatus_t. */
static const char *cure(int status)
{
    switch (status) {
    case 1: case 3:
        return "the GPU has no memory left; smaller micro-batches or more ranks need less";
    case 8: case 15:
        return "install a CUDA toolkit that is made for this GPU and its driver";
    default:
        return "dmesg (lines with Xid) and nvidia-smi tell whether the GPU has failed";
    }
}

static void lt_check(int status, const char *what, const Product *p)
{
    if (status) gpu_check_earlier("a kernel before a matrix product");
    CHECK(status == 0, "cublasLt%s failed with status %d: [%lld, %lld] times [%lld, %lld], %s to %s; %s",
          what, status, (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n,
          dtype_name(p->in), dtype_name(p->out), cure(status));
}

Status products_open(Products **products, GpuStream *s)
{
    Products *x = *products = calloc(1, sizeof *x);
    if (!x) return fail(NO_MEMORY, "no memory for the shapes of matrix products");
    Status status = lt_open(&x->lt);
    int error = status == OK ? x->lt.Create(&x->handle) : 0;
    if (error) {
        x->handle = NULL;
        status = fail(BAD_OPTION, "cuBLASLt does not work on %s: status %d; %s, or use --device cpu", s->name,
                      error, cure(error));
    }
    if (status == OK) return OK;
    products_close(x);
    *products = NULL;
    return status;
}

void products_close(Products *x)
{
    if (!x) return;
    for (int i = 0; i < x->plans; i++) {
        ProductPlan *plan = &x->plan[i];
        void *layout[] = { plan->a, plan->b, plan->c, plan->d };
        x->lt.MatmulDescDestroy(plan->desc);
        for (int k = 0; k < 4; k++) x->lt.MatrixLayoutDestroy(layout[k]);
    }
    if (x->handle) x->lt.Destroy(x->handle);
    lt_close(&x->lt);
    free(x);
}

/* ---- shapes ---- */

/* The number of the largest power of two that divides the address: 16 << number bytes, or the type's width
 * for 0. */
static int alignment(const void *at)
{
    int i = ALIGNMENTS;
    while (i > 0 && (uintptr_t)at % (16u << (i - 1)) != 0) i--;
    return i;
}

static ProductKey key_of(const Product *p)
{
    return (ProductKey){ p->m, p->n, p->k, p->d_stride, p->a_stride, p->b_stride, p->c ? p->c_stride : 0,
        p->a_turned + 2 * p->b_turned, (int32_t)p->in + 16 * (int32_t)p->out,
        (p->c != NULL) + 2 * (p->bias != NULL),
        alignment(p->b) + 8 * alignment(p->a) + 64 * alignment(p->c ? p->c : p->d) + 512 * alignment(p->d) +
        4096 * alignment(p->bias) };
}

static int lt_type(Dtype dtype)
{
    CHECK(dtype == F32 || dtype == BF16 || dtype == F16, "cuBLASLt is used for F32, BF16 and F16, not for %s",
          dtype_name(dtype));
    return dtype == BF16 ? LT_BF16 : dtype == F16 ? LT_F16 : LT_F32;
}

static void *layout_new(const Lt *lt, const Product *p, Dtype dtype, int64_t rows, int64_t columns,
                        int64_t stride)
{
    void *layout;
    lt_check(lt->MatrixLayoutCreate(&layout, lt_type(dtype), (uint64_t)rows, (uint64_t)columns, stride),
             "MatrixLayoutCreate", p);
    return layout;
}

static void bias_set(const Lt *lt, ProductPlan *plan, const Product *p)
{
    if (p->bias) lt->MatmulDescSetAttribute(plan->desc, LT_BIAS_POINTER, &p->bias, sizeof p->bias);
}

static void describe(const Lt *lt, ProductPlan *plan, const Product *p)
{
    int32_t turned[] = { p->b_turned, p->a_turned }, bias_type = lt_type(p->out);
    uint32_t epilogue = p->bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_NONE;
    lt_check(lt->MatmulDescCreate(&plan->desc, LT_COMPUTE_F32, LT_F32), "MatmulDescCreate", p);
    lt->MatmulDescSetAttribute(plan->desc, LT_TRANSA, &turned[0], sizeof turned[0]);
    lt->MatmulDescSetAttribute(plan->desc, LT_TRANSB, &turned[1], sizeof turned[1]);
    lt->MatmulDescSetAttribute(plan->desc, LT_EPILOGUE, &epilogue, sizeof epilogue);
    if (p->bias) lt->MatmulDescSetAttribute(plan->desc, LT_BIAS_TYPE, &bias_type, sizeof bias_type);
    bias_set(lt, plan, p);
    plan->a = layout_new(lt, p, p->in, p->b_turned ? p->k : p->n, p->b_turned ? p->n : p->k, p->b_stride);
    plan->b = layout_new(lt, p, p->in, p->a_turned ? p->m : p->k, p->a_turned ? p->k : p->m, p->a_stride);
    plan->c = layout_new(lt, p, p->out, p->n, p->m, p->c ? p->c_stride : p->d_stride);
    plan->d = layout_new(lt, p, p->out, p->n, p->m, p->d_stride);
}

static int propose(const Products *x, const ProductPlan *plan, const Product *p,
                   LtHeuristic result[PROPOSALS])
{
    const Lt *lt = &x->lt;
    const void *at[] = { p->b, p->a, p->c ? p->c : p->d, p->d };
    uint64_t workspace = PRODUCT_WORKSPACE;
    uint32_t schemes = LT_REDUCE_AS_COMPUTED;
    void *preference;
    int found = 0;
    lt_check(lt->MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate", p);
    lt->MatmulPreferenceSetAttribute(preference, LT_MAX_WORKSPACE, &workspace, sizeof workspace);
    lt->MatmulPreferenceSetAttribute(preference, LT_REDUCTION_SCHEMES, &schemes, sizeof schemes);
    for (int i = 0; i < 4; i++) {
        int number = alignment(at[i]);
        uint32_t bytes = number ? 8u << number : (uint32_t)dtype_width(i < 2 ? p->in : p->out);
        lt->MatmulPreferenceSetAttribute(preference, LT_ALIGNMENT_A + i, &bytes, sizeof bytes);
    }
    lt_check(lt->MatmulAlgoGetHeuristic(x->handle, plan->desc, plan->a, plan->b, plan->c, plan->d, preference,
                                        PROPOSALS, result, &found), "MatmulAlgoGetHeuristic", p);
    lt->MatmulPreferenceDestroy(preference);
    CHECK(found > 0, "cuBLASLt has no algorithm for [%lld, %lld] times [%lld, %lld]; %s", (long long)p->m,
          (long long)p->k, (long long)p->k, (long long)p->n, cure(15));
    return found;
}

static int run(const Products *x, ProductPlan *plan, const Product *p, const LtAlgorithm *algorithm, void *d,
               GpuStream *s, void *workspace)
{
    float one = 1, added = p->c ? 1 : 0;
    bias_set(&x->lt, plan, p);
    return x->lt.Matmul(x->handle, plan->desc, &one, p->b, plan->a, p->a, plan->b, &added,
                        p->c ? p->c : p->d, plan->c, d, plan->d, algorithm, workspace, PRODUCT_WORKSPACE,
                        s->stream);
}

/* Milliseconds of one product into d; infinite where the algorithm fails. */
static double time_of(const Products *x, ProductPlan *plan, const Product *p, const LtAlgorithm *algorithm,
                      void *d,
                      GpuStream *s, void *workspace)
{
    double best = 1e30;
    for (int i = 0; i < REPEATS; i++) {
        timing_begin(s);
        if (run(x, plan, p, algorithm, d, s, workspace) != 0) return 1e30;
        double took = timing_end(s);
        if (i > 0 && took < best) best = took;
    }
    return best;
}

/* A product of the same shape and types with numbers of our own, of which other orders of summation give
 * other bits: those of the run need not tell, since 16 bits may hide a difference that appears at a later
 * step. */
enum { TRIAL_A, TRIAL_B, TRIAL_C, TRIAL_BIAS, TRIAL_FIRST, TRIAL_OTHER, TRIAL_BUFFERS };
typedef struct { Product p; size_t bytes; void *buffer[TRIAL_BUFFERS]; } Trial;

static void trial_close(const Trial *t, GpuStream *s)
{
    for (int i = 0; i < TRIAL_BUFFERS; i++)
        if (t->buffer[i]) gpu_stream_free(s, t->buffer[i]);
}

static size_t matrix_bytes(TimingMatrix x)
{
    return (size_t)((x.rows - 1) * x.stride + x.columns) * dtype_width(x.dtype);
}

/* false where there is no memory for it. */
static bool trial_open(Trial *t, const Product *p, GpuStream *s)
{
    TimingMatrix x[] = {
        [TRIAL_A]    = { NULL, p->in, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k, p->a_stride,
                         p->a_turned },
        [TRIAL_B]    = { NULL, p->in, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n, p->b_stride,
                         !p->b_turned },
        [TRIAL_C]    = { NULL, p->out, p->m, p->n, p->c_stride, false },
        [TRIAL_BIAS] = { NULL, p->out, 1, p->n, p->n, false },
    };
    const bool wanted[] = { true, true, p->c != NULL, p->bias != NULL };
    *t = (Trial){ .p = *p };
    t->bytes = matrix_bytes((TimingMatrix){ NULL, p->out, p->m, p->n, p->d_stride, false });
    bool whole = true;
    for (int i = 0; i < TRIAL_BUFFERS && whole; i++) {
        bool operand = i < TRIAL_FIRST;
        if (operand && !wanted[i]) continue;
        whole = (t->buffer[i] = gpu_stream_alloc(s, operand ? matrix_bytes(x[i]) : t->bytes)) != NULL;
        if (!whole) break;
        if (!operand) { timing_fill(s, t->buffer[i], t->bytes); continue; }
        x[i].data = t->buffer[i];
        timing_operand(s, x[i], i == TRIAL_A, i < TRIAL_C ? 1 : 0x1p-24f, (uint64_t)i);
    }
    t->p.a = t->buffer[TRIAL_A], t->p.b = t->buffer[TRIAL_B];
    t->p.c = t->buffer[TRIAL_C], t->p.bias = t->buffer[TRIAL_BIAS];
    if (!whole) trial_close(t, s);
    return whole;
}

/* Where there is no memory for a trial the library's first is taken, which has the same bits. */
static void choose(const Products *x, ProductPlan *plan, const Product *p, GpuStream *s, void *workspace)
{
    LtHeuristic result[PROPOSALS];
    Trial t;
    int found = propose(x, plan, p, result);
    plan->algorithm = result[0].algorithm;
    if (found < 2 || !trial_open(&t, p, s)) return;
    void *first = t.buffer[TRIAL_FIRST], *other = t.buffer[TRIAL_OTHER];
    double best = time_of(x, plan, &t.p, &result[0].algorithm, first, s, workspace);
    /* only zeros, as where k is 2, tell nothing */
    if (timing_same(s, first, other, t.bytes, workspace)) found = 1;
    for (int i = 1; i < found; i++) {
        double took = time_of(x, plan, &t.p, &result[i].algorithm, other, s, workspace);
        if (took >= best || !timing_same(s, first, other, t.bytes, workspace)) continue;
        best = took;
        plan->algorithm = result[i].algorithm;
    }
    trial_close(&t, s);
}

static ProductPlan *plan_of(Products *x, const Product *p, GpuStream *s, void *workspace)
{
    ProductKey key = key_of(p);
    for (int i = 0; i < x->plans; i++)
        if (memcmp(&x->plan[i].key, &key, sizeof key) == 0) return &x->plan[i];
    CHECK(x->plans < PLANS, "more than %d shapes of matrix products", PLANS);
    ProductPlan *plan = &x->plan[x->plans++];
    plan->key = key;
    describe(&x->lt, plan, p);
    choose(x, plan, p, s, workspace);
    return plan;
}

void product_enqueue(GpuStream *s, const Product *p, void *workspace)
{
    Products *x = s->products;
    ProductPlan *plan = plan_of(x, p, s, workspace);
    lt_check(run(x, plan, p, &plan->algorithm, p->d, s, workspace), "Matmul", p);
}
