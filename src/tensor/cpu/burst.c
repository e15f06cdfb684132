/* Loops of multiply-adds for each family of kernels, and copies of memory. */
#include "tensor/cpu/burst.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "base/seam.h"

/* ---- the loops: 24 sums where registers allow, 12 where not ---- */

#define SUMS_12(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define SUMS_24(F) SUMS_12(F) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23)
/* A loop over one instruction for each sum; the assembler text keeps the compiler from removing it. */
#define BURST(loop, target, floats, EACH_SUM, instruction)                    \
    target static void loop(int64_t steps)                                    \
    {                                                                         \
        typedef float Vec __attribute__((vector_size(4 * floats)));           \
        Vec x = { 0 }, y = { 0 };                                             \
        EACH_SUM(BURST_SUM)                                                   \
        for (int64_t i = 0; i < steps; i++) { EACH_SUM(instruction) }         \
        EACH_SUM(BURST_USE)                                                   \
    }
#define BURST_SUM(i) Vec s##i = { 0 };
#ifdef __x86_64__
#define BURST_USE(i) __asm__ volatile("" : : "v"(s##i));
#define FMA(i)       __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(s##i) : "v"(x), "v"(y));
#define PAIRS(i)     __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(s##i) : "v"(x), "v"(y));
#define MUL_ADD(i)   s##i = s##i * x + y; __asm__ volatile("" : "+x"(s##i));
BURST(loop_pairs,  __attribute__((target("avx512f,avx512bf16"))), 16, SUMS_24, PAIRS)
BURST(loop_avx512, __attribute__((target("avx512f"))), 16, SUMS_24, FMA)
BURST(loop_avx2,   __attribute__((target("avx2,fma"))), 8, SUMS_12, FMA)
#else
#define BURST_USE(i) __asm__ volatile("" : : "w"(s##i));
#define MUL_ADD(i)   s##i = s##i * x + y; __asm__ volatile("" : "+w"(s##i));
#endif
#ifdef __aarch64__
#define NEON_FMA(i)  __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(s##i) : "w"(x), "w"(y));
BURST(loop_neon, , 4, SUMS_24, NEON_FMA)
#endif
BURST(loop_portable, , 4, SUMS_12, MUL_ADD)

bool burst_has_pairs(KernelFamily family) { return family == KERNELS_AVX512_BF16; }

Burst burst_of(KernelFamily family, Dtype input)
{
#ifdef __x86_64__
    if (burst_has_pairs(family) && input == BF16) return (Burst){ loop_pairs, 24 * 64, "vdpbf16ps zmm" };
    if (family == KERNELS_AVX512_BF16 || family == KERNELS_AVX512)
        return (Burst){ loop_avx512, 24 * 32, "vfmadd zmm" };
    if (family == KERNELS_AVX2) return (Burst){ loop_avx2, 12 * 16, "vfmadd ymm" };
#endif
#ifdef __aarch64__
    if (family == KERNELS_NEON) return (Burst){ loop_neon, 24 * 8, "fmla" };
#endif
    (void)family, (void)input;
    return (Burst){ loop_portable, 12 * 8, "4-float multiply and add" };
}

static void run_thread(void *burst, int thread, int threads)
{
    (void)thread, (void)threads;
    ((const Burst *)burst)->loop(BURST_STEPS);
}

double burst_run(Team *team, Burst burst)
{
    team_run(team, run_thread, &burst);
    return burst.flops * BURST_STEPS * team_size(team);
}

/* ---- measured ---- */

enum { THREADS_MAX = 4096 };           /* as --threads */
typedef struct { Burst burst; double rate[THREADS_MAX]; } Timed;

static double cpu_seconds(void)
{
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec;
}

static void timed_thread(void *context, int thread, int threads)
{
    Timed *t = context;
    (void)threads;
    double begun = cpu_seconds();
    t->burst.loop(BURST_STEPS);
    double seconds = cpu_seconds() - begun;
    t->rate[thread] = seconds > 0 ? t->burst.flops * BURST_STEPS / seconds : 0;
}

static double seconds_of_clock(void) { return 1e-9 * (double)seam.clock(); }

double burst_peak(Team *team, Burst burst, double seconds)
{
    static _Thread_local Timed t;                    /* 32 KiB are too much for a stack */
    double best = 0, begun = seconds_of_clock();
    t.burst = burst;
    do {
        double sum = 0;
        team_run(team, timed_thread, &t);
        for (int i = 0; i < team_size(team); i++) sum += t.rate[i];
        if (sum > best) best = sum;
    } while (seconds_of_clock() - begun < seconds);
    return best;
}

enum { COPY_MIB = 128, COPY_PART = 1 << 20 };   /* each of the two; parts of 1 MiB */
typedef struct { char *to, *from; } Copy;
static void copy_part(void *context, int64_t begin, int64_t end)
{
    const Copy *c = context;
    memcpy(c->to + begin * COPY_PART, c->from + begin * COPY_PART, (size_t)(end - begin) * COPY_PART);
}

Status burst_copy(double *bytes, Team *team, double seconds)
{
    size_t size = (size_t)COPY_MIB * COPY_PART;
    void *at = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return fail(NO_MEMORY, "no %d MiB to measure the bandwidth of memory", 2 * COPY_MIB);
    madvise(at, 2 * size, MADV_HUGEPAGE);
    memset(at, 1, 2 * size);
    Copy copy = { at, (char *)at + size };
    double begun = seconds_of_clock(), now = begun;
    *bytes = 0;
    do {
        double before = now;
        team_for(team, COPY_MIB, 8, copy_part, &copy);
        now = seconds_of_clock();
        if (now > before && 2.0 * (double)size / (now - before) > *bytes)
            *bytes = 2.0 * (double)size / (now - before);
    } while (now - begun < seconds);
    munmap(at, 2 * size);
    return OK;
}
