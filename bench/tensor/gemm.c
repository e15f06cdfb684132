/* The speed of the matrix product beside that of multiply-adds alone:
 *
 *     bench_gemm [FAMILY [TYPES [THREADS [TOKENS [LAYER]]]]]        FAMILY: one of best avx512-bf16 avx512 avx2 neon portable
 *
 * TYPES: fp32; bf16, sums in fp32 written as fp32; bf16-out, where forward and dgrad write bf16, as in training. The
 * shapes are those of GPT-2 124M: the four linear layers of a block and the head, each as forward (x wT), dgrad
 * (dy w) and wgrad (dw += dyT x). Before and after each of five repetitions all threads run a burst of
 * multiply-adds (of pairs of bf16 where the family has them) from registers: other work on the machine slows both,
 * so that the ratio says more than the rate does. On a machine that is far from idle even that is not enough, since
 * a burst and a product last too short to lose the same part of their time; the last column is the ratio of
 * what both do in a second of CPU time, which leaves out waiting of any kind. Medians of five; best: of five. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "tensor/cpu/gemm.h"

typedef struct { const char *name; int64_t K, N; double count; } Layer;       /* count: so many in the model */
static const Layer layers[] = {
    { "qkv", 768, 2304, 12 }, { "projection", 768, 768, 12 }, { "up", 768, 3072, 12 }, { "down", 3072, 768, 12 },
    { "head", 768, 50304, 1 },
};
enum { LAYERS = sizeof layers / sizeof *layers, REPETITIONS = 5 };
#define SUMS_12(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define SUMS_24(F) SUMS_12(F) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23)

typedef struct { double wall, cpu; } Seconds;        /* cpu: of all threads */
static Seconds now(void)
{
    struct timespec wall, cpu;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (Seconds){ (double)wall.tv_sec + 1e-9 * (double)wall.tv_nsec,
                      (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec };
}

static Seconds since(Seconds begun)
{
    Seconds t = now();
    return (Seconds){ t.wall - begun.wall, t.cpu - begun.cpu };
}

/* ---- bursts: independent sums, so many that no multiply-add waits for another; 24 where registers allow ---- */

typedef void Loop(int64_t steps);
/* `flops`: of one step of the loop */
typedef struct { Loop *loop; double flops; const char *name; } Burst;
/* A loop over one instruction for each sum; the assembler text keeps the compiler from removing it. */
#define BURST(loop, target, floats, EACH_SUM, instruction)                                                                   \
    target static void loop(int64_t steps)                                                                         \
    {                                                                                                              \
        typedef float Vec __attribute__((vector_size(4 * floats)));                                                \
        Vec x = { 0 }, y = { 0 };                                                                                  \
        EACH_SUM(BURST_SUM)                                                                                        \
        for (int64_t i = 0; i < steps; i++) { EACH_SUM(instruction) }                                              \
        EACH_SUM(BURST_USE)                                                                                        \
    }
#define BURST_SUM(i) Vec s##i = { 0 };
#ifdef __x86_64__
#define BURST_USE(i) __asm__ volatile("" : : "v"(s##i));
#define FMA(i)       __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(s##i) : "v"(x), "v"(y));
#define PAIRS(i)     __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(s##i) : "v"(x), "v"(y));
#define MUL_ADD(i)   s##i = s##i * x + y; __asm__ volatile("" : "+x"(s##i));
BURST(burst_pairs,  __attribute__((target("avx512f,avx512bf16"))), 16, SUMS_24, PAIRS)
BURST(burst_avx512, __attribute__((target("avx512f"))), 16, SUMS_24, FMA)
BURST(burst_avx2,   __attribute__((target("avx2,fma"))), 8, SUMS_12, FMA)
#else
#define BURST_USE(i) __asm__ volatile("" : : "w"(s##i));
#define MUL_ADD(i)   s##i = s##i * x + y; __asm__ volatile("" : "+w"(s##i));
#endif
BURST(burst_plain, , 4, SUMS_12, MUL_ADD)

static Burst burst_of(const GemmFamily *family, Dtype input)
{
#ifdef __x86_64__
    const char *name = gemm_family_name(family);
    if (!strcmp(name, "avx512-bf16") && input == BF16) return (Burst){ burst_pairs, 24 * 64, "vdpbf16ps zmm" };
    if (!strncmp(name, "avx512", 6)) return (Burst){ burst_avx512, 24 * 32, "vfmadd zmm" };
    if (!strcmp(name, "avx2")) return (Burst){ burst_avx2, 12 * 16, "vfmadd ymm" };
#endif
    (void)family, (void)input;
    return (Burst){ burst_plain, 12 * 8, "4-float multiply and add" };
}

enum { BURST_STEPS = 500000, BURSTS = 5 };           /* of up to 6 million cycles, about 2 ms */
static void burst_thread(void *context, int thread, int threads)
{
    (void)thread, (void)threads;
    (*(Loop **)context)(BURST_STEPS);
}

static Seconds burst_run(Team *team, Burst burst)
{
    Seconds begun = now();
    for (int i = 0; i < BURSTS; i++) team_run(team, burst_thread, &burst.loop);
    return since(begun);
}

/* ---- the products ---- */

static void *memory_new(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "bench_gemm: no memory for %zu bytes\n", bytes);
        exit(3);
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

typedef struct { void *at; Dtype type; } Fill;
/* Numbers in [-1, 1), which in bf16 are the upper halves of the fp32 ones. */
static void fill_part(void *context, int64_t begin, int64_t end)
{
    Fill *f = context;
    for (int64_t i = begin; i < end; i++) {
        uint32_t bits = (uint32_t)i * 2654435761u;
        bits ^= bits >> 15, bits *= 0x85ebca6bu, bits ^= bits >> 13;
        float x = (float)(int32_t)bits * 0x1p-31f;
        memcpy(&bits, &x, sizeof bits);
        if (f->type == F32) ((float *)f->at)[i] = x;
        else ((uint16_t *)f->at)[i] = (uint16_t)(bits >> 16);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, REPETITIONS, sizeof *x, ascending);
    return x[REPETITIONS / 2];
}

typedef struct { double wall, cpu; } Ratio;
static Ratio measure(Team *team, Burst burst, const char *layer, const char *product, const Gemm *g, void *work,
                     size_t bytes)
{
    double rate[REPETITIONS], ratio[REPETITIONS], cpu[REPETITIONS], peak[REPETITIONS];
    double flops = 2.0 * (double)g->M * (double)g->N * (double)g->K;
    double burst_flops = 2.0 * BURSTS * BURST_STEPS * burst.flops * team_size(team);
    gemm(team, g, work, bytes);                      /* pages and frequency */
    for (int i = 0; i < REPETITIONS; i++) {
        Seconds before = burst_run(team, burst), begun = now();
        gemm(team, g, work, bytes);
        Seconds took = since(begun), after = burst_run(team, burst);
        rate[i]  = flops / took.wall;
        peak[i]  = burst_flops / (before.wall + after.wall);
        ratio[i] = rate[i] / peak[i];
        cpu[i]   = flops / took.cpu / (burst_flops / (before.cpu + after.cpu));
    }
    Ratio  middle = { median(ratio), median(cpu) };
    double typical = median(rate), typical_peak = median(peak);
    printf("%-10s %-7s %6lld %6lld %6lld  %8.1f %8.1f %8.1f   %5.1f %5.1f  %5.1f\n", layer, product, (long long)g->M,
           (long long)g->N, (long long)g->K, typical / 1e9, rate[REPETITIONS - 1] / 1e9, typical_peak / 1e9,
           100 * middle.wall, 100 * ratio[REPETITIONS - 1], 100 * middle.cpu);
    fflush(stdout);
    return middle;
}

int main(int count, char **word)
{
    const char *name  = count > 1 ? word[1] : "best", *types = count > 2 ? word[2] : "fp32";
    int     threads   = count > 3 ? atoi(word[3]) : team_cores();
    int64_t T         = count > 4 ? atol(word[4]) : 4096;
    const GemmFamily *family = strcmp(name, "best") ? NULL : gemm_family_best();
    for (int i = 0; i < GEMM_FAMILIES && gemm_family_at(i) && !family; i++)
        if (!strcmp(gemm_family_name(gemm_family_at(i)), name)) family = gemm_family_at(i);
    if (!family || !gemm_family_runs(family) || T < 1) {
        fprintf(stderr, "usage: bench_gemm [FAMILY [fp32|bf16|bf16-out [THREADS [TOKENS]]]]: %s is no family that "
                "this machine runs\n", name);
        return 2;
    }
    Dtype input  = strcmp(types, "fp32") ? BF16 : F32;
    Dtype output = strcmp(types, "bf16-out") ? F32 : BF16;
    Team *team;
    if (team_open(&team, threads) != OK) return 3;
    Burst  burst = burst_of(family, input);
    size_t width = input == F32 ? 4 : 2;
    int64_t wide = 50304, narrow = 3072;
    char *x_TC = memory_new((size_t)(T * narrow) * width), *w_KC = memory_new((size_t)(wide * 768) * width);
    char *dy_TK = memory_new((size_t)(T * wide) * width), *out = memory_new((size_t)(T * wide) * 4);
    team_for(team, T * narrow, 1 << 16, fill_part, &(Fill){ x_TC, input });
    team_for(team, wide * 768, 1 << 16, fill_part, &(Fill){ w_KC, input });
    team_for(team, T * wide, 1 << 16, fill_part, &(Fill){ dy_TK, input });
    size_t bytes = (size_t)T * 1600 * 4 + ((size_t)32 << 20) + (size_t)threads * (1 << 20);
    void  *work  = memory_new(bytes);

    printf("family %s, %s, %d threads, %lld tokens; rates in GFLOP/s; burst: %s\n", gemm_family_name(family), types,
           threads, (long long)T, burst.name);
    printf("%-10s %-7s %6s %6s %6s  %8s %8s %8s   ratio  best    cpu %%\n", "layer", "product", "M", "N", "K", "median", "best", "burst");
    double wall[2] = { 0 }, cpu[2] = { 0 }, ideal[2] = { 0 };        /* of the blocks, of the head */
    Ratio  least = { 9, 9 };
    for (int i = 0; i < LAYERS; i++) {
        const Layer *l = &layers[i];
        if (count > 5 && strcmp(word[5], l->name)) continue;
        int64_t K = l->N, C = l->K;
        Gemm product[] = {
            { .y = out, .y_row = K, .a = { x_TC, C, 1 }, .b = { w_KC, 1, C }, .M = T, .N = K, .K = C, .output = output },
            { .y = out, .y_row = C, .a = { dy_TK, K, 1 }, .b = { w_KC, C, 1 }, .M = T, .N = C, .K = K, .output = output },
            { .y = out, .y_row = C, .a = { dy_TK, 1, K }, .b = { x_TC, C, 1 }, .M = K, .N = C, .K = T, .add = true },
        };
        static const char *const which[] = { "forward", "dgrad", "wgrad" };
        for (int j = 0; j < 3; j++) {
            product[j].input = input, product[j].family = family;
            Ratio  ratio = measure(team, burst, l->name, which[j], &product[j], work, bytes);
            double flops = l->count * (double)T * (double)K * (double)C;
            ideal[l->count == 1] += flops;
            wall[l->count == 1]  += flops / ratio.wall;
            cpu[l->count == 1]   += flops / ratio.cpu;
            if (ratio.wall < least.wall) least.wall = ratio.wall;
            if (ratio.cpu < least.cpu) least.cpu = ratio.cpu;
        }
    }
    printf("%% of the burst: blocks %.1f, head %.1f, all %.1f, the least of a shape %.1f\n", 100 * ideal[0] / wall[0],
           100 * ideal[1] / wall[1], 100 * (ideal[0] + ideal[1]) / (wall[0] + wall[1]), 100 * least.wall);
    printf("%% in CPU time:  blocks %.1f, head %.1f, all %.1f, the least of a shape %.1f\n", 100 * ideal[0] / cpu[0],
           100 * ideal[1] / cpu[1], 100 * (ideal[0] + ideal[1]) / (cpu[0] + cpu[1]), 100 * least.cpu);
    team_close(team);
    return 0;
}
