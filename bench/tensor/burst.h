#ifndef BENCH_TENSOR_BURST_H
#define BENCH_TENSOR_BURST_H
/* What the benchmarks of kernels share: the speed of multiply-adds alone, measured right before and after a
 * kernel, with clocks of wall time and of CPU time; memory in large pages; medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "tensor/cpu/gemm.h"

enum { REPETITIONS = 5 };
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

static Burst burst_of(KernelFamily family, Dtype input)
{
#ifdef __x86_64__
    if (family == KERNELS_AVX512_BF16 && input == BF16) return (Burst){ burst_pairs, 24 * 64, "vdpbf16ps zmm" };
    if (family == KERNELS_AVX512_BF16 || family == KERNELS_AVX512) return (Burst){ burst_avx512, 24 * 32, "vfmadd zmm" };
    if (family == KERNELS_AVX2) return (Burst){ burst_avx2, 12 * 16, "vfmadd ymm" };
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

/* ---- memory and medians ---- */

static void *memory_new(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(3);
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
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
#endif
