/* The speed of attention beside that of multiply-adds alone:
 *
 *     bench_attention [FAMILY [THREADS [T]]]        FAMILY: one of best avx512 avx2 neon portable
 *
 * The shapes are heads as in GPT-2 124M (12 of 64 channels), wider ones, and 8 query heads that share 2
 * key-value heads; T: only shapes of that length. Flops are those of the pairs of query and key that are
 * visible, 2 products forward and 5 backward; a tile that is computed in vain counts as waiting. Rates and
 * ratios are measured as in bench/tensor/gemm.c. */
#include "burst.h"
#include "tensor/ops.h"

typedef struct { int64_t B, T, H, G, D; bool causal; } Shape;
static const Shape shapes[] = {
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

typedef struct { AttentionForward forward; AttentionBackward backward; } Case;

static Case case_new(const Shape *s)
{
    Tensor q = random_tensor(s->B, s->T, s->H, s->D), o = random_tensor(s->B, s->T, s->H, s->D);
    Tensor dq = random_tensor(s->B, s->T, s->H, s->D), d_o = random_tensor(s->B, s->T, s->H, s->D);
    Tensor kv = random_tensor(s->B, s->T, 2 * s->G, s->D), dkv = random_tensor(s->B, s->T, 2 * s->G, s->D);
    Tensor lse = random_tensor(s->B, s->T, s->H, 1), delta = random_tensor(s->B, s->T, s->H, 1), range = { 0 };
    if (!s->causal) {
        range = tensor_at(NULL, I32, (const int64_t[]){ s->B, s->T, 2 }, 3);
        range.data = memory_new(tensor_bytes(range));
        for (int64_t i = 0; i < s->B * s->T; i++) ((int32_t *)range.data)[2 * i + 1] = (int32_t)s->T;
    }
    Case c = { .forward = { .o = o, .lse = lse, .q = q, .k = tensor_slice(kv, 2, 0, s->G),
                            .v = tensor_slice(kv, 2, s->G, s->G), .key_range_i = range, .heads = s->H, .span = s->T,
                            .scale = 1 / __builtin_sqrt((double)s->D) } };
    c.backward = (AttentionBackward){
        .dq = dq, .dk = tensor_slice(dkv, 2, 0, s->G), .dv = tensor_slice(dkv, 2, s->G, s->G), .d_o = d_o, .q = q,
        .k = c.forward.k, .v = c.forward.v, .lse = lse, .delta = delta, .key_range_i = range, .heads = s->H,
        .span = s->T, .scale = c.forward.scale };
    return c;
}

static void case_free(const Case *c, const Shape *s)
{
    size_t wide = (size_t)(s->B * s->T * s->H * s->D) * 4, pair = (size_t)(s->B * s->T * 2 * s->G * s->D) * 4;
    void *heads[] = { c->forward.q.data, c->forward.o.data, c->backward.dq.data, c->backward.d_o.data };
    for (int i = 0; i < 4; i++) munmap(heads[i], wide);
    munmap(c->forward.k.data, pair);
    munmap(c->backward.dk.data, pair);
    munmap(c->forward.lse.data, (size_t)(s->B * s->T * s->H) * 4);
    munmap(c->backward.delta.data, (size_t)(s->B * s->T * s->H) * 4);
}

static void pass_run(Queue *q, const Case *c, bool backward)
{
    if (backward) attention_backward(q, c->backward);
    else attention_forward(q, c->forward);
}

/* Short passes are repeated until they last as long as a burst. */
static void measure(Queue *q, Burst burst, const Case *c, const Shape *s, bool backward)
{
    double pairs = s->causal ? (double)s->T * (double)(s->T + 1) / 2 : (double)s->T * (double)s->T;
    double flops = (backward ? 10.0 : 4.0) * (double)(s->B * s->H * s->D) * pairs;
    int    count = 1 + (int)(1e9 / flops);
    double rate[REPETITIONS], peak[REPETITIONS], ratio[REPETITIONS], cpu[REPETITIONS];
    double burst_flops = 2.0 * BURSTS * BURST_STEPS * burst.flops * q->threads;
    pass_run(q, c, backward);                        /* pages and frequency */
    for (int i = 0; i < REPETITIONS; i++) {
        Seconds before = burst_run(q->team, burst), begun = now();
        for (int j = 0; j < count; j++) pass_run(q, c, backward);
        Seconds took = since(begun), after = burst_run(q->team, burst);
        rate[i]  = count * flops / took.wall;
        peak[i]  = burst_flops / (before.wall + after.wall);
        ratio[i] = rate[i] / peak[i];
        cpu[i]   = count * flops / took.cpu / (burst_flops / (before.cpu + after.cpu));
    }
    double wall = median(ratio), of_cpu = median(cpu), typical = median(rate);
    printf("%2lld %5lld %3lld:%-3lld %4lld %-6s %-8s %9.2f %8.1f %8.1f   %5.1f %5.1f  %5.1f\n", (long long)s->B,
           (long long)s->T, (long long)s->H, (long long)s->G, (long long)s->D, s->causal ? "causal" : "full",
           backward ? "backward" : "forward", 1e3 * flops / typical, typical / 1e9, median(peak) / 1e9, 100 * wall,
           100 * ratio[REPETITIONS - 1], 100 * of_cpu);
    fflush(stdout);
}

int main(int count, char **word)
{
    const char *name = count > 1 ? word[1] : "best";
    int     threads  = count > 2 ? atoi(word[2]) : team_cores();
    int64_t only     = count > 3 ? atol(word[3]) : 0;
    static StepState step_state;
    Queue q;
    Arena workspace;
    (void)name;
    if (queue_open(&q, "cpu", threads, &step_state) != OK) return 3;
    if (arena_open(&workspace, "workspace", (size_t)256 << 20) != OK) return 3;
    q.workspace = &workspace;
    Burst burst = burst_of(gemm_family_best(), F32);
    printf("%d threads; rates in GFLOP/s; burst: %s\n", threads, burst.name);
    printf(" B     T   H:G    D mask   pass            ms   median    burst   ratio  best    cpu %%\n");
    for (int i = 0; i < SHAPES; i++) {
        if (only && shapes[i].T != only) continue;
        Case c = case_new(&shapes[i]);
        measure(&q, burst, &c, &shapes[i], false);
        measure(&q, burst, &c, &shapes[i], true);
        case_free(&c, &shapes[i]);
    }
    queue_close(&q);
    arena_close(&workspace);
    return 0;
}
