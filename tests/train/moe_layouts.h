#ifndef TESTS_TRAIN_MOE_LAYOUTS_H
#define TESTS_TRAIN_MOE_LAYOUTS_H
/* Tiny models with experts, and the layouts that are held against one rank. */
#include "train/compare.h"

typedef struct { Layout layout; int etp, ep; } MoeLayout;
static const MoeLayout moe_layouts[] = {
    /* name                      ranks tp cp pp chunks zero sequence schedule        etp ep */
    { { "ep2",                       2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },        1, 2 },
    { { "ep4",                       4, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },        1, 4 },
    { { "ep2 edp2 zero1",            4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },        1, 2 },
    { { "ep2 edp2 zero3",            4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },        1, 2 },
    { { "dp4 zero2",                 4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },        1, 1 },
    { { "tp2, ep2",                  2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },        1, 2 },
    { { "tp2, etp2",                 2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },        2, 1 },
    { { "tp2 sequence, etp2 ep2",    4, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },        2, 2 },
    { { "tp2 sequence, ep4",         4, 2, 1, 1, 1, 1, true,  SCHEDULE_1F1B },        1, 4 },
    { { "cp2, ep2",                  2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },        1, 2 },
    { { "pp2, ep2",                  4, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },        1, 2 },
    { { "pp2 zb-h1 zero3, ep2",      4, 1, 1, 2, 1, 3, false, SCHEDULE_ZB_H1 },       1, 2 },
    { { "pp2 interleaved tp2 seq",   8, 2, 1, 2, 2, 1, true,  SCHEDULE_INTERLEAVED }, 1, 2 },
    { { "tp2 seq cp2 dp2, etp2 ep4", 8, 2, 2, 1, 1, 2, true,  SCHEDULE_1F1B },        2, 4 },
    { { "tp2 cp2 pp2 zb-h1, ep4",    8, 2, 2, 2, 1, 0, false, SCHEDULE_ZB_H1 },       1, 4 },
};
enum { MOE_LAYOUTS = sizeof moe_layouts / sizeof *moe_layouts };

/* 2 to 8 experts over ep 1, 2 and 4, with tp and pp; topk: of a token */
typedef struct { int experts, topk; MoeLayout at; } MoeSpan;
static const MoeSpan moe_span[] = {
    { 2, 1, { { "2 experts, tp2 pp2",          4, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B },        1, 1 } },
    { 2, 1, { { "2 experts, tp2 pp2, ep2",     4, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B },        1, 2 } },
    { 2, 2, { { "2 of 2 experts, tp2, ep2",    2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },        1, 2 } },
    { 2, 1, { { "2 experts, pp2 zero3, ep2",   4, 1, 1, 2, 1, 3, false, SCHEDULE_ZB_H1 },       1, 2 } },
    { 4, 2, { { "4 experts, tp2 pp2",          4, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },        1, 1 } },
    { 4, 2, { { "4 experts, tp2 pp2, ep2",     4, 2, 1, 2, 1, 0, true,  SCHEDULE_ZB_H1 },       1, 2 } },
    { 4, 2, { { "4 experts, tp2 pp2 dp2, ep4", 8, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B },        1, 4 } },
    { 8, 1, { { "8 experts, tp2 pp2",          4, 2, 1, 2, 1, 0, false, SCHEDULE_GPIPE },       2, 1 } },
    { 8, 1, { { "8 experts, tp2 pp2, ep2",     4, 2, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED }, 1, 2 } },
    { 8, 3, { { "8 experts, tp2 pp2 dp2, ep4", 8, 2, 1, 2, 1, 2, true,  SCHEDULE_1F1B },        1, 4 } },
    { 8, 1, { { "8 experts, dp4 pp2, ep4",     8, 1, 1, 2, 1, 1, false, SCHEDULE_1F1B },        1, 4 } },
};
enum { MOE_SPAN = sizeof moe_span / sizeof *moe_span };

static inline Setup moe_setup(TrainConfig config, const MoeLayout *l)
{
    config_set_layout(&config, &l->layout);
    config.etp = l->etp;
    config.ep  = l->ep;
    return (Setup){ l->layout.name, config, l->layout.ranks };
}

/* GPT: 4 experts, 2 of a token, Mixtral's weights, balanced by auxiliary losses. Llama: 8 experts in groups, sigmoids
 * and biases as in DeepSeek-V3, a shared expert, the first and third layer dense. */
static inline TrainConfig moe_config(ModelName model, const char *device, const char *data)
{
    TrainConfig config = tiny_config(model, device, data);
    config.model.qkv_bias = config.model.out_bias = config.model.mlp_bias = false;
    config.model.experts = model == MODEL_GPT ? 4 : 8;
    config.model.expert_ffn = 24;
    config.model.moe = (MoeConfig){ .topk = 2, .rule = { .score = ROUTE_SOFTMAX, .scale = 1 },
        .balance = MOE_BALANCE_SEQUENCE, .coefficient = 0.01, .z_coefficient = 1e-3 };
    if (model == MODEL_LLAMA) {
        config.model.moe.rule = (RouteRule){ .score = ROUTE_SIGMOID, .groups = 4, .group_topk = 2, .scale = 2.5 };
        config.model.moe.topk = 4;
        config.model.moe.shared_ffn = 20;
        config.model.moe.bias = true;
        config.model.moe.bias_rate = 1e-3;
        config.model.moe.dense_layers[0] = 5;
    }
    return config;
}
#endif
