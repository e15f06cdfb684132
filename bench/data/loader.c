/* How fast the loader alone makes batches, and what of a run's time it takes: bench_loader [TOKENS [FOLDER]]
 * A pair of TOKENS (default 300 million, 600 MB: more than caches hold) is read in random order, at sequences of 2048 and 8192;
 * then a small model is trained on it, whose lines tell tokens/s and the time that the step waited for data.            */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/random.h"
#include "train/step.h"

enum { VOCABULARY = 50257, DOCUMENT = 500 };
static const char *prefix;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Status pair_make(int64_t tokens)
{
    TokenFileWriter *w;
    int32_t ids[DOCUMENT];
    TRY(token_file_create(&w, prefix, VOCABULARY));
    for (int64_t d = 0; d < tokens / DOCUMENT; d++) {
        for (int64_t i = 0; i < DOCUMENT; i++) ids[i] = (int32_t)((uint64_t)(d * 7919 + i * i * 31) % (VOCABULARY - 1));
        ids[DOCUMENT - 1] = VOCABULARY - 1;
        TRY(token_file_add(w, ids, DOCUMENT));
        TRY(token_file_end_document(w));
    }
    return token_file_finish(w);
}

static LoaderConfig shape_of(int64_t sequence, bool masks)
{
    return (LoaderConfig){ .sequence = sequence, .micro = 4, .global = 4, .dp = 1, .cp = 1, .seed = 1, .eod = VOCABULARY - 1, .loss_weight = F32,
                          .reset_positions = masks, .reset_attention = masks, .mask_eod = masks };
}

static Status loads(const char *what, Datasets *datasets, int64_t sequence, bool masks, int64_t tokens)
{
    Loader loader;
    Arena  host;
    LoaderConfig shape = shape_of(sequence, masks);
    int64_t steps = tokens / (sequence * shape.global);
    TRY(datasets_loader(datasets, &loader, SPLIT_TRAIN, shape));
    TRY(arena_open(&host, "host", 16 << 20));
    Batch batch = loader_batch_new(&shape, &host);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t k = 0; k < steps; k++) TRY(loader_fill(&loader, &batch, k * shape.global, 0, VOCABULARY));
    wall = now(CLOCK_MONOTONIC) - wall, cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double read = (double)(steps * shape.global * sequence);
    printf("%-9s order, sequence %" PRId64 "%s: %.0f million tokens/s, %.0f of CPU time\n", what, sequence, masks ? ", all masks" : "",
           1e-6 * read / wall, 1e-6 * read / cpu);
    arena_close(&host);
    return OK;
}

static Status order_loads(OrderKind order, const char *what, int64_t tokens)
{
    static const int64_t sequence[] = { 2048, 8192 };
    for (int i = 0; i < 4; i++) {
        Datasets datasets;
        DatasetsPlan spec = { .rules = { .order = order, .data_path = { &prefix, 1, false }, .final_epoch_cut = 0.80 }, .split = "1", .wanted = { tokens / sequence[i / 2] - 4 } };
        TRY(datasets_open(&datasets, &spec));
        TRY(loads(what, &datasets, sequence[i / 2], i % 2, tokens / 2));
        datasets_close(&datasets);
    }
    return OK;
}

static Status train(Transport *transport, void *context)
{
    Trainer t;
    double waited = 0;
    enum { STEPS = 5 };
    TRY(trainer_start(&t, context, transport));
    trainer_init(&t);
    trainer_step(&t);
    double wall = now(CLOCK_MONOTONIC);
    for (int i = 0; i < STEPS; i++) waited += trainer_step(&t).waited;
    wall = now(CLOCK_MONOTONIC) - wall;
    printf("trained: %.0f tokens/s; of %.3f s a step %.6f s waited for data\n", STEPS * (double)(t.config->global * t.config->model.sequence) / wall, wall / STEPS,
           waited / STEPS);
    trainer_close(&t);
    return OK;
}

/* The smallest model that says anything: larger ones take more time for the same data. */
static Status trains(void)
{
    TrainConfig r = {
        .model = { .layers = 1, .hidden = 32, .ffn = 64, .heads = 2, .groups = 2, .head_dim = 16, .vocabulary = VOCABULARY, .positions = 256, .sequence = 256,
                   .norm = NORM_LAYER, .position = POSITION_LEARNED, .activation = ACT_GELU_TANH, .epsilon = 1e-5, .init_std = 0.02, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .tied = true },
        .training = true, .tp = 1, .cp = 1, .pp = 1, .chunks = 1, .schedule = SCHEDULE_1F1B, .micro = 4, .global = 4, .steps = 20,
        .lr = { .style = LR_CONSTANT, .peak = 1e-4, .low = 0, .warmup = 0, .decay = 20 * 4 }, .weight_decay = { .end = 0.1 }, .optimizer = optimizer_named("adam"), .settings = { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 }, .clip = 1,
        .seed = 1, .device = "cpu", .threads = team_cores(), .token_prefix = prefix, .split = "1", .eod = VOCABULARY - 1, .log_interval = 1 };
    return transport_threads_run(1, train, &r);
}

int main(int argc, char **argv)
{
    char path[600], bin[640];
    int64_t tokens = argc > 1 ? strtoll(argv[1], NULL, 10) : 300000000;
    snprintf(path, sizeof path, "%.500s/jotun_bench_loader", argc > 2 ? argv[2] : "/tmp");
    prefix = path;
    snprintf(bin, sizeof bin, "%s.bin", prefix);
    Status status = file_exists(bin) ? OK : pair_make(tokens);        /* kept for another run; to be removed by hand */
    if (status == OK) status = order_loads(ORDER_JOTUN, "jotun", tokens);
    if (status == OK) status = order_loads(ORDER_MEGATRON, "Megatron", tokens);
    if (status == OK) status = trains();
    if (status != OK) fprintf(stderr, "%s\n", fail_text());
    return status != OK;
}
