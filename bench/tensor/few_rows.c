/* The speed of linear maps with few rows, as in generation, beside that of reading memory:
 *
 *     bench_few_rows [FAMILY [THREADS [TYPES]]]           FAMILY: one of best avx512-bf16 avx512 avx2 neon portable
 *
 * TYPES: those of fp32, bf16, fp16 and int8 (weights in 8 bits, activations in bf16) that are wanted, with commas. One
 * pass multiplies so many rows with all matrices of GPT-2 124M in order: four of each of 12 blocks, which follow each
 * other in memory, and the head. They are more than caches hold, so that a pass reads them from memory. Before and after each of
 * nine passes all threads add up as many bytes; and one matrix, which caches hold, is multiplied as often as makes about a pass.
 * Medians of nine: microseconds of a pass, GB/s of weights with their scales, GB/s of the sums, the ratio, and microseconds of a pass
 * over the one matrix, which is what computing takes. `op`: microseconds of an operation on 16 elements, and of one that wakes
 * all threads. */
#include <math.h>
#include "../measure.h"
#include "tensor/int8.h"
#include "tensor/ops.h"

enum { PIECE = 256 << 10, REPETITIONS = 9, BLOCKS = 12, MATRICES = 4 * BLOCKS + 1, WIDEST = 50304, DEEPEST = 3072 };
static const int64_t counts[] = { 1, 2, 4, 8, 16, 32, 64 };
static const struct { int64_t C, K; } layer[] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 }, { 768, WIDEST } };

typedef struct { Tensor w, code, scale; } Matrix;
static Queue queue;
static Matrix matrix[MATRICES];
static char  *memory;
static size_t used;

static Tensor take(Dtype dtype, int64_t a, int64_t b, int64_t c)
{
    Tensor x = tensor_at(memory + used, dtype, (const int64_t[]){ a, b, c }, c > 1 ? 3 : 2);
    used += (tensor_bytes(x) + 255) / 256 * 256;
    return x;
}

static void fill_part(void *context, int64_t begin, int64_t end)
{
    uint16_t *to = context;
    for (int64_t i = begin; i < end; i++)                              /* bf16 numbers of size 1, fp16 of size 0.01 */
        to[i] = (uint16_t)((i % 2 ? 0x3f00 : 0xbf00) + (i * 2654435761u >> 24 & 0x7f));
}

typedef struct { char *at; int64_t bytes; double sum[256]; } Reading;
/* Each thread adds up adjacent pieces, as a product reads them. */
static void read_pieces(void *context, int thread, int threads)
{
    typedef float Vec __attribute__((vector_size(64), may_alias));
    Reading *r = context;
    Vec sum[4] = { 0 };
    (void)threads;
    for (int64_t i; (i = team_claim(queue.team, thread)) >= 0;)
        for (int64_t at = i * PIECE; at + 256 <= (i + 1) * PIECE && at + 256 <= r->bytes; at += 256)
            for (int v = 0; v < 4; v++) sum[v] += *(const Vec *)(r->at + at + 64 * v);
    r->sum[thread % 256] = (double)(sum[0] + sum[1] + sum[2] + sum[3])[0];
}

static double reading(int64_t bytes)
{
    static Reading r;
    r.at = memory, r.bytes = bytes;
    Seconds begun = now();
    team_share(queue.team, (bytes + PIECE - 1) / PIECE);
    team_run(queue.team, read_pieces, &r);
    return since(begun).wall;
}

static void multiply(const Matrix *m, Tensor y, Tensor x)
{
    if (tensor_present(m->code))
        int8_matmul_forward(&queue, (Int8MatmulForward){ .y_TK = y, .x_TC = x, .code_PBN = m->code, .scale_PBR = m->scale });
    else matmul_forward(&queue, (MatmulForward){ .y_TK = y, .x_TC = x, .w_KC = m->w });
}

static double pass(char *y, char *x, int64_t T, Dtype type)
{
    Seconds begun = now();
    for (int i = 0; i < MATRICES; i++) {
        int64_t C = layer[i < 4 * BLOCKS ? i % 4 : 4].C, K = layer[i < 4 * BLOCKS ? i % 4 : 4].K;
        multiply(&matrix[i], tensor_at(y, type, (const int64_t[]){ T, K }, 2),
                 tensor_at(x, type, (const int64_t[]){ T, C }, 2));
    }
    return since(begun).wall;
}

/* A pass over as many weights, those of one matrix of 768 x 768 many times. */
static double cached_pass(char *y, char *x, int64_t T, Dtype type)
{
    enum { ONE = 1 };
    int64_t C = layer[ONE].C, K = layer[ONE].K;
    const Matrix *m = &matrix[ONE];
    int64_t bytes = (int64_t)(tensor_present(m->code) ? tensor_bytes(m->code) + tensor_bytes(m->scale) : tensor_bytes(m->w));
    int64_t times = (int64_t)used / bytes;
    Seconds begun = now();
    for (int64_t i = 0; i < times; i++)
        multiply(m, tensor_at(y, type, (const int64_t[]){ T, K }, 2), tensor_at(x, type, (const int64_t[]){ T, C }, 2));
    return since(begun).wall * (double)used / (double)(times * bytes);
}

/* All matrices in a row, from the begin of memory. */
static void matrices_make(Dtype type, bool int8)
{
    used = 0;
    for (int i = 0; i < MATRICES; i++) {
        int64_t C = layer[i < 4 * BLOCKS ? i % 4 : 4].C, K = layer[i < 4 * BLOCKS ? i % 4 : 4].K;
        matrix[i] = (Matrix){ 0 };
        if (int8) matrix[i].code = take(U8, int8_panels(K), int8_blocks(C), INT8_BYTES);
        if (int8) matrix[i].scale = take(F32, int8_panels(K), int8_blocks(C), INT8_ROWS);
        else matrix[i].w = take(type, K, C, 1);
    }
    team_for(queue.team, (int64_t)used / 2, 1 << 16, fill_part, memory);
    for (int i = 0; i < MATRICES && int8; i++)
        for (int64_t j = 0; j < tensor_count(matrix[i].scale); j++) ((float *)matrix[i].scale.data)[j] = 0.01f;
}

static void measure(const char *name, Dtype type, bool int8, char *y, char *x)
{
    matrices_make(type, int8);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        double took[REPETITIONS], read[REPETITIONS], ratio[REPETITIONS], cached[REPETITIONS];
        pass(y, x, counts[n], type);
        for (int i = 0; i < REPETITIONS; i++) {
            double before = reading((int64_t)used);
            took[i]  = pass(y, x, counts[n], type);
            read[i]  = (before + reading((int64_t)used)) / 2;
            ratio[i] = read[i] / took[i];
            cached[i] = cached_pass(y, x, counts[n], type);
        }
        double typical = median(took, REPETITIONS);
        printf("%-5s %4lld rows  %9.0f us  %6.1f GB/s  %6.1f GB/s  %5.1f %%  %9.0f us\n", name, (long long)counts[n], 1e6 * typical,
               1e-9 * (double)used / typical, 1e-9 * (double)used / median(read, REPETITIONS), 100 * median(ratio, REPETITIONS),
               1e6 * median(cached, REPETITIONS));
        fflush(stdout);
    }
}

static void idle_part(void *context, int64_t begin, int64_t end) { (void)context, (void)begin, (void)end; }
static void measure_ops(char *y)
{
    enum { CALLS = 20000 };
    Tensor x = tensor_at(y, F32, (const int64_t[]){ 1, 16 }, 2);
    Seconds begun = now();
    for (int i = 0; i < CALLS; i++) fill_zero(&queue, (FillZero){ .y = x });
    double small = since(begun).wall / CALLS;
    begun = now();
    for (int i = 0; i < CALLS; i++) team_for(queue.team, team_size(queue.team), 1, idle_part, NULL);
    printf("op    %.2f us, all threads %.2f us\n", 1e6 * small, 1e6 * since(begun).wall / CALLS);
}

int main(int count, char **word)
{
    const char *name = count > 1 ? word[1] : "best", *types = count > 3 ? word[3] : "bf16,int8";
    KernelFamily family = strcmp(name, "best") ? kernel_family_named(name) : kernel_family_best();
    StepState step_state = { .seed = 1 };
    if (!kernel_family_callable(family)) {
        fprintf(stderr, "usage: bench_few_rows [FAMILY [THREADS [fp32,bf16,fp16,int8]]]: %s is no family that this machine runs\n", name);
        return 2;
    }
    if (queue_open(&queue, "cpu", count > 2 ? atoi(word[2]) : team_cores(), &step_state) != OK) return 3;
    Arena workspace;
    if (arena_open(&workspace, "workspace", 64 << 20) != OK) return 3;
    queue.kernels = family, queue.workspace = &workspace;
    memory = memory_new((size_t)640 << 20);
    char *y = memory_new(64 * WIDEST * 4), *x = memory_new(64 * DEEPEST * 4);
    team_for(queue.team, 64 * DEEPEST * 2, 1 << 16, fill_part, x);
    printf("family %s, %d threads; a pass, weights, sums of memory, ratio, a pass over one matrix\n", kernel_family_name(family), team_size(queue.team));
    measure_ops(y);
    if (strstr(types, "fp32")) measure("fp32", F32, false, y, x);
    if (strstr(types, "bf16")) measure("bf16", BF16, false, y, x);
    if (strstr(types, "fp16")) measure("fp16", F16, false, y, x);
    if (strstr(types, "int8")) measure("int8", BF16, true, y, x);
    arena_close(&workspace);
    queue_close(&queue);
    return 0;
}
