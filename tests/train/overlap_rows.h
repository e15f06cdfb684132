#ifndef TESTS_TRAIN_OVERLAP_ROWS_H
#define TESTS_TRAIN_OVERLAP_ROWS_H
/* What overlap regains of the time that late messages cost without it: each message takes a quarter of the computation longer that
 * can hide it. For overlap_delay_test, whose computation takes fixed times, and overlap_delay, which really computes. */
#include "train/harness.h"

enum { OVERLAP_MICROS = 8 };                           /* of a pipeline */
/* layers: of which the step of a micro-batch can hide one message. least: share of the loss to be regained in seconds; timed: by
 * clocks, which have no noise, a little below what is regained now. */
typedef struct { const char *name; int ranks, tp, pp, zero, hybrid; double layers, least, timed; int ep, cp; } OverlapRow;
static const OverlapRow overlap_rows[] = {
    { "ZeRO 1",   2, 1, 1, 1, 0, 1.0 / 2, 0.5, 0.85 }, /* forward or backward of a layer */
    { "ZeRO 2",   2, 1, 1, 2, 0, 1.0 / 2, 0.5, 0.85 },
    { "ZeRO 3",   2, 1, 1, 3, 0, 1.0 / 2, 0.5, 0.85 },
    { "hybrid 1", 4, 1, 1, 1, 2, 1.0 / 2, 0.5, 0.8 },  /* ZeRO 1 in pairs, and sums over the pairs */
    { "hybrid 3", 4, 1, 1, 3, 2, 1.0 / 2, 0.5, 0.85 },
    { "tp 2",     2, 2, 1, 0, 0, 1.0 / 6, 0.4, 0.4 },  /* weight gradients of half a layer */
    { "pp 2",     2, 1, 2, 0, 0, 0,       0.5, 0.6 },  /* a micro-batch more in the warm-up: its step on a stage */
    { "ep 2",     2, 1, 1, 0, 0, 1.0 / 10, 0.5, 0.6, 2 },   /* forward of the experts of one chunk of two */
    { "cp 4",     4, 1, 1, 0, 0, 1.0 / 150, 0.4, 0.5, 0, 4 }, /* forward attention with the keys of one rank */
};
enum { OVERLAP_ROWS = sizeof overlap_rows / sizeof *overlap_rows };

/* Seconds by which each message is late, where a step without delay takes `none`. */
static inline double overlap_delay(const OverlapRow *row, int layers, double none)
{
    return row->pp > 1 ? none / (OVERLAP_MICROS + row->pp - 1) / 4 : none / layers * row->layers / 4;
}

static inline TrainConfig overlap_config(const OverlapRow *row, int layers, bool apart)
{
    TrainConfig config = tiny_config(MODEL_GPT, "cpu", scratch_path("corpus"));
    config.model.layers = layers;
    config.model.hidden_dropout = config.model.attention_dropout = 0;
    config.head_chunk = 0, config.tp = row->tp, config.pp = row->pp, config.zero = row->zero, config.no_overlap = apart;
    config.hybrid_shard = row->hybrid;
    if (row->cp > 0) config.cp = row->cp;
    config.micro  = row->pp > 1 ? 1 : 2;
    config.global = row->pp > 1 ? OVERLAP_MICROS : 2 * row->ranks / row->tp / config.cp;
    config.extra_warmup = row->pp > 1 && !apart;
    if (row->ep == 0) return config;
    config.ep = row->ep, config.model.qkv_bias = config.model.out_bias = config.model.mlp_bias = false;
    config.model.experts = 16, config.model.expert_ffn = config.model.ffn;
    config.model.moe = (MoeConfig){ .topk = 1, .rule = { .score = ROUTE_SOFTMAX, .pre_softmax = true, .scale = 1 } };
    return config;
}

/* Prints the row and returns whether less than `least` is regained. */
static inline bool overlap_print(const OverlapRow *row, double least, double delay, double none, double apart, double beside)
{
    double regained = (apart - beside) / (apart - none);
    printf("%-8s %.4f s without delay; %.2f ms a message: %.4f s without overlap, %.4f s with it: %.0f%% regained (%.0f%% wanted)\n",
           row->name, none, 1e3 * delay, apart, beside, 100 * regained, 100 * least);
    return !(regained >= least);
}
#endif
