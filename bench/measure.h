#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H
/* What the benchmarks of kernels share: clocks of wall time and of CPU time, memory in large pages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "median.h"

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
#endif
