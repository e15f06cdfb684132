#ifndef TESTS_TENSOR_OPS_TRIAL_H
#define TESTS_TENSOR_OPS_TRIAL_H
/* One case of one op on ref and on cpu, for one signature: the types that the letters of its row in ops.def
 * stand for. The buffers are copied, and rounded to the type of the tensors in them before either back end
 * sees them. */
#include "ops_fixture.h"

static StepState start;                                    /* what a case begins with */
static double    loosen, roundings;                        /* a case may ask for a wider tolerance */
/* How far element i of the first argument may be off because of what the op rounds on the way, by the numbers that ref has; NULL:
 * only the output is rounded. */
static double  (*rounded_before)(const Arguments *ref, int64_t i, Dtype dtype);
/* A sum in float is off by a share of what is summed, which is about 1 here, also where the sum is near 0. */
#ifdef OPS_CUDA
static const double least_scale = 1.0 / 64;
#else
static const double least_scale = 0;                       /* cpu sums in double */
#endif
static KernelFamily family;                                /* of the kernels in cpu */

/* w: of a letter w. Letters that are not here stand for F32 in cpu. */
typedef struct { Dtype a, w, o, x, y, r; bool repeated; } Signature;     /* repeated: equal to another */

/* ---- signatures of a row ---- */

static bool row_has(int op, const char *letters) { return strpbrk(op_types(op), letters) != NULL; }

/* Signature number i of a row; false when there are no more. A letter that the row does not have is F32. */
static bool signature_at(int op, int i, Signature *s)
{
    static const Dtype real_types[] = { F32, BF16, F16 }, state_types[] = { F32, BF16 };
    int counts[6] = { row_has(op, "apw*") ? 3 : 1, row_has(op, "w") ? 2 : 1, row_has(op, "o") ? 2 : 1,
                      row_has(op, "x") ? 3 : 1, row_has(op, "y") ? 3 : 1,
                      row_has(op, "r") ? 2 : 1 }, at[6];
    for (int k = 0; k < 6; k++) at[k] = i % counts[k], i /= counts[k];
    *s = (Signature){ .a = real_types[at[0]], .w = at[1] ? real_types[at[0]] : F32, .o = state_types[at[2]],
                      .x = real_types[at[3]], .y = real_types[at[4]],
                      .r = at[5] ? F8_E5M2 : F8_E4M3, .repeated = at[1] && real_types[at[0]] == F32 };
    return i == 0;
}

/* Signatures that another one equals. And what the quick part leaves out: FP16 in all but the first cases, since kernels convert it where they convert
 * BF16, and where the same kernels run with another number of lanes, all signatures but the first. */
static bool left_out(int signature, int variant, const Signature *s)
{
#ifdef OPS_FIRST_SIGNATURE
    bool first_alone = OPS_FIRST_SIGNATURE;
#else
    bool first_alone = false;
#endif
    return s->repeated || (!getenv("JOTUN_FULL") && ((variant > 3 && s->a == F16) || (first_alone && signature > 0)));
}

static Dtype type_of(const Signature *s, char letter)
{
    switch (letter) {
    case 'a': case 'p': case '*': return s->a;
    case 'w': return s->w;
    case 'o': return s->o;
    case 'x': return s->x;
    case 'y': return s->y;
    }
    return F32;
}

static int buffer_of(const void *data)
{
    for (int i = 0; i < buffers; i++) {
        const char *end = buffer[i].data + buffer[i].count * (int64_t)dtype_width(buffer[i].dtype);
        if ((const char *)data >= buffer[i].data && (const char *)data < end) return i;
    }
    fail_msg("a tensor of no buffer");
    return -1;
}

static bool is_real(int b) { return buffer[b].dtype == F64 && !buffer[b].sums; }

/* The type of each buffer in cpu; false where two tensors of a buffer would have different ones. */
static bool buffer_types(Dtype *type, int op, const Arguments *a, const Signature *s)
{
    const Tensor *x = (const Tensor *)a;
    bool typed[BUFFERS] = { false };
    for (int b = 0; b < buffers; b++) type[b] = is_real(b) ? F32 : buffer[b].dtype;
    for (int i = 0; i < tensors_of(op); i++) {
        if (!tensor_present(x[i])) continue;
        int b = buffer_of(x[i].data);
        Dtype wanted = type_of(s, op_types(op)[i]);
        if (!is_real(b)) continue;
        if (typed[b] && type[b] != wanted) return false;
        type[b] = wanted, typed[b] = true;
    }
    return true;
}

/* Of "+=": what is added to is about 1 and rounded as that, however near to 0 the sum is. */
static double one_off(const Arguments *ref, int64_t i, Dtype dtype)
{
    (void)ref, (void)i, (void)dtype;
    return 0x1p-23;
}

/* ---- one run ---- */
typedef struct { char *copy[BUFFERS]; Dtype type[BUFFERS]; Arguments a; StepState step_state; } Trial;

/* type NULL: as ref has them */
static void trial_copy(Trial *t, const Arguments *a, int op, const Dtype *type)
{
    for (int i = 0; i < buffers; i++) {
        t->type[i] = type ? type[i] : buffer[i].dtype;
        t->copy[i] = malloc((size_t)buffer[i].count * dtype_width(t->type[i]));
        assert_non_null(t->copy[i]);
        if (dtype_is_float(t->type[i]))
            dtype_convert(t->copy[i], t->type[i], buffer[i].data, buffer[i].dtype, buffer[i].count);
        else memcpy(t->copy[i], buffer[i].data, (size_t)buffer[i].count * dtype_width(t->type[i]));
    }
    t->a          = *a;
    t->step_state = start;
    Tensor *x = (Tensor *)&t->a;
    for (int i = 0; i < tensors_of(op); i++) {
        if (!tensor_present(x[i])) continue;
        int b = buffer_of(x[i].data);
        int64_t at = ((char *)x[i].data - buffer[b].data) / (int64_t)dtype_width(x[i].dtype);
        x[i].dtype = t->type[b];
        x[i].data  = t->copy[b] + at * (int64_t)dtype_width(x[i].dtype);
    }
}

static void trial_free(Trial *t)
{
    for (int i = 0; i < buffers; i++) free(t->copy[i]);
}

static Arena trial_workspace;                              /* of all trials: opened once */

static void trial_run(Trial *t, const Arguments *a, int op, const Dtype *type, int threads)
{
    Queue q;
    trial_copy(t, a, op, type);
    assert_int_equal(queue_open(&q, type ? "cpu" : "ref", threads, &t->step_state), OK);
    q.workspace = &trial_workspace;
    q.kernels   = family;
    perform(&q, op, &t->a);
    assert_int_equal(trial_workspace.used, 0);
    queue_close(&q);
}

/* ---- comparisons ---- */
static double value_of(Tensor x, int64_t at)
{
    double value;
    if (x.dtype == I32) return ((const int32_t *)x.data)[at];
    if (x.dtype == U8) return ((const uint8_t *)x.data)[at];
    if (x.dtype == F32) return ((const float *)x.data)[at];
    if (x.dtype == F64) return ((const double *)x.data)[at];
    dtype_convert(&value, F64, (const char *)x.data + at * (int64_t)dtype_width(x.dtype), x.dtype, 1);
    return value;
}

/* Half a unit of the last place, relative to the number, for what is rounded to 16 bits; F16 also has half
 * of its smallest number. */
static double rounding_of(Dtype dtype, double x)
{
    return dtype == BF16 ? 0x1.02p-8 * fabs(x) : dtype == F16 ? 0x1.02p-11 * fabs(x) + 0x1p-25 : 0;
}

/* The largest finite element. */
static double largest(Tensor x)
{
    double  most = 0;
    int64_t count = tensor_count(x);
    for (int64_t i = 0; i < count; i++) {
        double size = fabs(value_of(x, offset(x, i)));
        if (isfinite(size) && size > most) most = size;
    }
    return most;
}

/* Elements of one argument agree. ref never gives a NaN here, and an infinity must be the same one. Of codes one in
 * 200 may be the next one, where a number is between two. */
static void compare(int op, int variant, int argument, const Arguments *ref, Tensor two, double tolerance)
{
    Tensor one = ((const Tensor *)ref)[argument];
    double  scale = fmax(least_scale, largest(one));
    int64_t count = tensor_count(one), next_codes = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = value_of(one, offset(one, i)), y = value_of(two, offset(two, i));
        double off = argument == 0 && rounded_before ? rounded_before(ref, i, two.dtype) : 0;
        if (two.dtype == U8) off = 1, next_codes += x != y;
        if (!(x == y || fabs(x - y) <= off + tolerance * scale + roundings * rounding_of(two.dtype, fabs(x) + off)))
            fail_msg("%s by %s, variant %d, argument %d in %s, element %lld: ref %.9g, cpu %.9g, apart %.2g of %.3g",
                     op_name(op), kernel_family_name(family), variant, argument, dtype_name(two.dtype), (long long)i, x, y,
                     fabs(x - y) / scale, scale);
    }
    if (next_codes > 1 + count / 200)
        fail_msg("%s, variant %d, argument %d: %lld of %lld codes are others", op_name(op), variant, argument,
                 (long long)next_codes, (long long)count);
}

/* The memory between the rows of the arguments is unchanged. */
static void compare_gaps(int op, int variant, const Trial *t)
{
    for (int b = 0; b < buffers; b++) {
        if (!is_real(b)) continue;
        char *used = calloc(1, (size_t)buffer[b].count);
        const Tensor *x = (const Tensor *)&t->a;
        Tensor copy = tensor_at(t->copy[b], t->type[b], &buffer[b].count, 1);
        for (int i = 0; i < tensors_of(op); i++) {
            if (!tensor_present(x[i])) continue;
            int64_t width = (int64_t)dtype_width(t->type[b]), bytes = (const char *)x[i].data - t->copy[b];
            int64_t at = bytes / width;
            if (bytes < 0 || at >= buffer[b].count) continue;
            for (int64_t j = 0, count = tensor_count(x[i]); j < count; j++) used[at + offset(x[i], j)] = 1;
        }
        for (int64_t j = 0; j < buffer[b].count; j++)
            if (!used[j] && value_of(copy, j) != ((double *)buffer[b].data)[j])
                fail_msg("%s, variant %d wrote element %lld of buffer %d, which is nobody's", op_name(op),
                         variant, (long long)j, b);
        free(used);
    }
}

static void same_bits(int op, int variant, const Trial *one, const Trial *two, int threads)
{
    for (int i = 0; i < buffers; i++)
        if (memcmp(one->copy[i], two->copy[i], (size_t)buffer[i].count * dtype_width(one->type[i])))
            fail_msg("%s by %s, variant %d: %d threads give other bits than one", op_name(op),
                     kernel_family_name(family), variant, threads);
}

/* Threads whose results are compared with ref's, and the most threads whose results are compared with theirs.
 * Under AddressSanitizer all is computed once, by three: operations run five times as long there. */
#ifdef __SANITIZE_ADDRESS__
enum { THREADS_FIRST = 3, THREADS_MOST = 3 };
#else
enum { THREADS_FIRST = 1, THREADS_MOST = 3 };
#endif

/* cpu against ref by one family of kernels, and by more threads against one */
static void one_family(int op, int variant, const Arguments *a, const Dtype *type, const Trial *ref, double tolerance)
{
    Trial cpu, more;
    trial_run(&cpu, a, op, type, THREADS_FIRST);
    const Tensor *x = (const Tensor *)&ref->a, *y = (const Tensor *)&cpu.a;
    for (int i = 0; i < tensors_of(op); i++)
        if (tensor_present(x[i])) compare(op, variant, i, &ref->a, y[i], tolerance * loosen);
    compare_gaps(op, variant, &cpu);
    assert_memory_equal(&ref->step_state, &cpu.step_state, sizeof cpu.step_state);
    for (int threads = THREADS_FIRST + 1; threads <= THREADS_MOST; threads++) {
        trial_run(&more, a, op, type, threads);
        same_bits(op, variant, &cpu, &more, threads);
        trial_free(&more);
    }
    trial_free(&cpu);
}

/* The rows whose kernels come in families (tensor/kernel_family.h) */
static bool has_families(int op)
{
    switch (op) {
    case OP_matmul_activation_forward: case OP_matmul_residual_forward:
    case OP_matmul_forward:    case OP_matmul_backward_input: case OP_matmul_backward_weight:
    case OP_grouped_matmul_forward: case OP_grouped_matmul_backward_input: case OP_grouped_matmul_backward_weight:
    case OP_paged_attention_forward: case OP_int8_matmul_forward:
    case OP_attention_forward: case OP_attention_backward:    return true;
    }
    return false;
}

/* Whether the emulated kernels are worth their time: their source is that of the others, so a sanitizer sees
 * nothing new in them, and the quick part of a machine that has the instructions neither. */
static bool emulates(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return !kernel_family_callable(KERNELS_AVX512_BF16) || getenv("JOTUN_FULL");
#endif
}

#ifdef OPS_CUDA
#include "ops_cuda.h"
#endif

/* false: the tensors of this case share memory, which they cannot with these types. of_pairs, if not 0: the tolerance
 * where a family multiplies pairs of bf16. */
static bool one_case(int op, int variant, const Arguments *a, const Signature *s, double tolerance, double of_pairs)
{
    Trial ref;
    Dtype type[BUFFERS] = { F64 };
    if (!buffer_types(type, op, a, s)) return false;
    for (int b = 0; b < buffers; b++)
        if (is_real(b)) round_to(type[b], (double *)buffer[b].data, buffer[b].count);
    trial_run(&ref, a, op, NULL, 1);
#ifdef OPS_CUDA
    double of_type = s->a == BF16 ? of_pairs : s->a == F16 ? of_pairs / 8 : 0;           /* three bits more */
    one_device(op, variant, a, type, &ref, of_type > 0 ? of_type : tolerance);
    trial_free(&ref);
    return true;
#endif
    for (family = KERNELS_AUTO + 1; family < KERNEL_FAMILIES; family++) {
        bool called = has_families(op) ? kernel_family_callable(family) : family == kernel_family_best();
        if (!called || (family == KERNELS_EMULATED && !emulates())) continue;
        bool pairs = of_pairs > 0 && s->a == BF16 && kernel_family_has_pairs(family);
        one_family(op, variant, a, type, &ref, pairs ? of_pairs : tolerance);
    }
    trial_free(&ref);
    return true;
}
#endif
