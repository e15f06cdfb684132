#include "plan/memory.h"
#include <stdio.h>
#include "base/log.h"

static void show_arena(const Arena *a)
{
    char text[24];
    printf("  %-10s %12s\n", a->name, log_bytes(text, (double)a->peak));
    for (int i = 0; i < a->tags; i++)
        if (a->tag[i].peak > 0) printf("    %-32s %12s\n", a->tag[i].name, log_bytes(text, (double)a->tag[i].peak));
}

static Status show_stage(const TrainConfig *config, int stage, int world, double *total)
{
    int ranks = world / config->pp;
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(stage * ranks, world);      /* the first rank of the stage; its others need the same or less */
    Status status = trainer_open(&t, config, transport, NULL);
    if (status == OK) {
        char text[24];
        trainer_count(&t, &sizes);
        *total = 0;
        for (int i = 0; i < ARENAS; i++) *total += (double)sizes.bytes[i];
        printf("stage %d (ranks %d to %d): %s a rank\n", stage, stage * ranks, stage * ranks + ranks - 1, log_bytes(text, *total));
        for (int i = 0; i < ARENAS; i++) show_arena(&t.arena[i]);
        printf("  a step: %.4g flops in matmuls and attention, %s read and written by ops\n", queue_flops(&t.queue), log_bytes(text, queue_bytes(&t.queue)));
    }
    trainer_close(&t);
    transport->close(transport);
    return status;
}

/* Beside the arenas, and only where the data is at hand: on another machine it may not be. */
static Status indices_measure(double *bytes, const TrainConfig *r)
{
    Datasets datasets;
    DatasetsPlan spec = train_config_datasets(r);
    LoaderConfig shape = { .sequence = r->model.sequence, .micro = r->micro, .global = r->global, .dp = 1, .cp = 1, .seed = r->seed, .eod = r->eod };
    Status status = datasets_open(&datasets, &spec);
    for (int kind = 0; status == OK && kind < SPLITS; kind++) {
        if (!train_config_takes(r, (SplitKind)kind)) continue;
        status = datasets_measure(&datasets, (SplitKind)kind, &shape);
        if (status == OK) *bytes += (double)blend_bytes(&datasets.blend[kind]);
    }
    datasets_close(&datasets);
    return status;
}

static void show_indices(const TrainConfig *r)
{
    double bytes = 0;
    char text[24];
    DatasetsPlan spec = train_config_datasets(r);
    if (r->datasets.order == ORDER_JOTUN || !(spec.rules.words.count || spec.rules.list || spec.rules.own[SPLIT_TRAIN].count)) return;
    if (indices_measure(&bytes, r) == OK)
        printf("order of samples %s of indices %s\n", log_bytes(text, bytes), r->datasets.cache ? "in --data-cache-path, mapped by the ranks of a host together" :
               "a rank; --data-cache-path DIR keeps them once a host");
    else printf("order of samples not counted: %s\n", fail_text());
}

Status memory_show(const TrainConfig *r, int world)
{
    double most = 0, bytes;
    char text[24];
    printf("parameters       %lld\n", (long long)model_parameters(&r->model));
    printf("model flops      %.6g a token with attention counted in full, %.6g causal\n", model_flops(&r->model, false), model_flops(&r->model, true));
    printf("tokens a step    %lld\n", (long long)trainer_step_tokens(r));
    for (int stage = 0; stage < r->pp; stage++) {
        TRY(show_stage(r, stage, world, &bytes));
        if (bytes > most) most = bytes;
    }
    printf("largest rank     %s\n", log_bytes(text, most));
    show_indices(r);
    return OK;
}
