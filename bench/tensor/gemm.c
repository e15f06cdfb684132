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
#include "burst.h"

typedef struct { const char *name; int64_t K, N; double count; } Layer;       /* count: so many in the model */
static const Layer layers[] = {
    { "qkv", 768, 2304, 12 }, { "projection", 768, 768, 12 }, { "up", 768, 3072, 12 }, { "down", 3072, 768, 12 },
    { "head", 768, 50304, 1 },
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* ---- the products ---- */

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

typedef struct { double wall, cpu; } Ratio;
static Ratio measure(Team *team, Burst burst, const char *layer, const char *product, const Gemm *g, void *work,
                     size_t bytes)
{
    double rate[REPETITIONS], ratio[REPETITIONS], cpu[REPETITIONS], peak[REPETITIONS];
    double flops = 2.0 * (double)g->M * (double)g->N * (double)g->K;
    double burst_flops = 2.0 * BURSTS * BURST_STEPS * burst.flops * team_size(team);
    gemm(team, g, work, bytes);                      /* pages and frequency */
    for (int i = 0; i < REPETITIONS; i++) {
        Seconds before = bursts_run(team, burst), begun = now();
        gemm(team, g, work, bytes);
        Seconds took = since(begun), after = bursts_run(team, burst);
        rate[i]  = flops / took.wall;
        peak[i]  = burst_flops / (before.wall + after.wall);
        ratio[i] = rate[i] / peak[i];
        cpu[i]   = flops / took.cpu / (burst_flops / (before.cpu + after.cpu));
    }
    Ratio  middle = { median(ratio, REPETITIONS), median(cpu, REPETITIONS) };
    double typical = median(rate, REPETITIONS), typical_peak = median(peak, REPETITIONS);
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
    KernelFamily family = strcmp(name, "best") ? kernel_family_named(name) : kernel_family_best();
    if (!kernel_family_callable(family) || T < 1) {
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

    printf("family %s, %s, %d threads, %lld tokens; rates in GFLOP/s; burst: %s\n", kernel_family_name(family), types,
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
            product[j].input = input, product[j].output = j < 2 ? output : F32, product[j].family = family;
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
