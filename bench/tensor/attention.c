/* The speed of attention beside that of multiply-adds alone:
 *
 *     bench_attention [FAMILY [THREADS [T]]]        FAMILY: one of best avx512 avx2 neon portable
 *
 * The shapes are heads as in GPT-2 124M (12 of 64 channels), wider ones, and 8 query heads that share 2
 * key-value heads; T: only shapes of that length. Flops are those of the pairs of query and key that are
 * visible, 2 products forward and 5 backward; a tile that is computed in vain counts as waiting. Rates and
 * ratios are measured as in bench/tensor/gemm.c. */
#include "burst.h"
#include <math.h>
#include "tensor/cpu/flash/flash.h"

typedef struct { int64_t B, T, H, G, D; bool causal; } HeadSizes;
static const HeadSizes shapes[] = {
    { 4, 1024, 12, 12, 64, true },  { 1, 1024, 12, 12, 64, true },  { 4, 64, 12, 12, 64, true },
    { 4, 1024, 12, 12, 64, false }, { 4, 1024, 6, 6, 128, true },   { 4, 1024, 6, 6, 128, false },
    { 1, 1024, 6, 6, 128, true },   { 4, 64, 6, 6, 128, true },     { 4, 1024, 8, 2, 64, true },
    { 1, 1024, 8, 2, 128, true },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static Tensor random_tensor(int64_t B, int64_t T, int64_t H, int64_t D)
{
    Tensor x = tensor_at(NULL, F32, (const int64_t[]){ B, T, H, D }, 4);
    x.data = memory_new(tensor_bytes(x));
    uint32_t bits = 1;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        bits = bits * 1664525u + 1013904223u;
        ((float *)x.data)[i] = (float)(int32_t)bits * 0x1p-30f;
    }
    return x;
}

static Flash case_new(const HeadSizes *s, KernelFamily family)
{
    Tensor kv = random_tensor(s->B, s->T, 2 * s->G, s->D), dkv = random_tensor(s->B, s->T, 2 * s->G, s->D), range = { 0 };
    if (!s->causal) {
        range = tensor_at(NULL, I32, (const int64_t[]){ s->B, s->T, 2 }, 3);
        range.data = memory_new(tensor_bytes(range));
        for (int64_t i = 0; i < s->B * s->T; i++) ((int32_t *)range.data)[2 * i + 1] = (int32_t)s->T;
    }
    return (Flash){ .o = random_tensor(s->B, s->T, s->H, s->D), .d_o = random_tensor(s->B, s->T, s->H, s->D),
                    .delta = random_tensor(s->B, s->T, s->H, 1), .dq = random_tensor(s->B, s->T, s->H, s->D),
                    .dk = tensor_slice(dkv, 2, 0, s->G), .dv = tensor_slice(dkv, 2, s->G, s->G),
                    .lse = random_tensor(s->B, s->T, s->H, 1), .q = random_tensor(s->B, s->T, s->H, s->D),
                    .k = tensor_slice(kv, 2, 0, s->G), .v = tensor_slice(kv, 2, s->G, s->G), .key_range_i = range,
                    .rule = { .heads = s->H, .span = s->T, .scale = 1 / sqrt((double)s->D) }, .family = family };
}

static void pass_run(Team *team, const Flash *x, bool backward, void *work, size_t bytes)
{
    if (backward) flash_backward(team, x, work, bytes);
    else flash_forward(team, x, work, bytes);
}

/* Short passes are repeated until they last as long as a burst. */
static void measure(Team *team, Burst burst, const Flash *x, const HeadSizes *s, bool backward)
{
    double pairs = s->causal ? (double)s->T * (double)(s->T + 1) / 2 : (double)s->T * (double)s->T;
    double flops = (backward ? 10.0 : 4.0) * (double)(s->B * s->H * s->D) * pairs;
    int    count = 1 + (int)(1e9 / flops);
    double rate[REPETITIONS], peak[REPETITIONS], ratio[REPETITIONS], cpu[REPETITIONS];
    double burst_flops = 2.0 * BURSTS * BURST_STEPS * burst.flops * team_size(team);
    size_t bytes = (backward ? flash_backward_workspace : flash_forward_workspace)(x, team_size(team));
    void  *work  = memory_new(bytes);
    pass_run(team, x, backward, work, bytes);        /* pages and frequency */
    for (int i = 0; i < REPETITIONS; i++) {
        Seconds before = bursts_run(team, burst), begun = now();
        for (int j = 0; j < count; j++) pass_run(team, x, backward, work, bytes);
        Seconds took = since(begun), after = bursts_run(team, burst);
        rate[i]  = count * flops / took.wall;
        peak[i]  = burst_flops / (before.wall + after.wall);
        ratio[i] = rate[i] / peak[i];
        cpu[i]   = count * flops / took.cpu / (burst_flops / (before.cpu + after.cpu));
    }
    munmap(work, bytes);
    double wall = median(ratio, REPETITIONS), of_cpu = median(cpu, REPETITIONS), typical = median(rate, REPETITIONS);
    printf("%2lld %5lld %3lld:%-3lld %4lld %-6s %-8s %9.2f %8.1f %8.1f   %5.1f %5.1f  %5.1f\n", (long long)s->B,
           (long long)s->T, (long long)s->H, (long long)s->G, (long long)s->D, s->causal ? "causal" : "full",
           backward ? "backward" : "forward", 1e3 * flops / typical, typical / 1e9, median(peak, REPETITIONS) / 1e9, 100 * wall,
           100 * ratio[REPETITIONS - 1], 100 * of_cpu);
    fflush(stdout);
}

int main(int count, char **word)
{
    const char *name = count > 1 ? word[1] : "best";
    int     threads  = count > 2 ? atoi(word[2]) : team_cores();
    int64_t only     = count > 3 ? atol(word[3]) : 0;
    KernelFamily family = strcmp(name, "best") ? kernel_family_named(name) : kernel_family_best();
    Team *team;
    if (!kernel_family_callable(family)) {
        fprintf(stderr, "usage: bench_attention [FAMILY [THREADS [T]]]: %s is no family that this machine runs\n", name);
        return 2;
    }
    if (team_open(&team, threads) != OK) return 3;
    Burst burst = burst_of(family, F32);
    printf("family %s, %d threads; rates in GFLOP/s; burst: %s\n", kernel_family_name(family), threads, burst.name);
    printf(" B     T   H:G    D mask   pass            ms   median    burst   ratio  best    cpu %%\n");
    for (int i = 0; i < SHAPES; i++) {
        if (only && shapes[i].T != only) continue;
        Flash x = case_new(&shapes[i], family);      /* its memory is never given back */
        measure(team, burst, &x, &shapes[i], false);
        measure(team, burst, &x, &shapes[i], true);
    }
    team_close(team);
    return 0;
}
