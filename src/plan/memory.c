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

static Status show_stage(const Recipe *recipe, int stage, int world, double *total)
{
    int ranks = world / recipe->pp;
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(stage * ranks, world);      /* the first rank of the stage; its others need the same or less */
    Status status = trainer_open(&t, recipe, transport, NULL);
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

Status memory_show(const Recipe *r, int world)
{
    double most = 0, bytes;
    char text[24];
    printf("parameters       %lld\n", (long long)shape_parameters(&r->shape));
    printf("model flops      %.6g a token with attention counted in full, %.6g causal\n", shape_flops(&r->shape, false), shape_flops(&r->shape, true));
    printf("tokens a step    %lld\n", (long long)trainer_step_tokens(r));
    for (int stage = 0; stage < r->pp; stage++) {
        TRY(show_stage(r, stage, world, &bytes));
        if (bytes > most) most = bytes;
    }
    printf("largest rank     %s\n", log_bytes(text, most));
    return OK;
}
