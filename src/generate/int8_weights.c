/* Weights in 8 bits: every matrix of the blocks and the head is quantized once. */
#include "generate/int8_weights.h"
#include <stdlib.h>
#include "tensor/int8.h"

enum { MATRICES = 4 };                                             /* of a unit at most */

static void matrix_add(Int8Weights *weights, const EngineSetup *g, Tensor w_KC)
{
    if (!tensor_present(w_KC)) return;
    Int8Matrix *m = &weights->matrix[weights->count++];
    int64_t P = int8_panels(w_KC.dim[0]), B = int8_blocks(w_KC.dim[1]);
    Dtype statistic = g->executor->ctx.precision.statistic;
    *m = (Int8Matrix){ .w = w_KC.data,
        .code_PBN  = tensor_new(g->arena, "weights in 8 bits", U8, P, B, INT8_BYTES),
        .scale_PBR = tensor_new(g->arena, "scales of weights", statistic, P, B, INT8_ROWS) };
    int8_quantize(g->executor->ctx.queue, (Int8Quantize){ .code_PBN = m->code_PBN, .scale_PBR = m->scale_PBR,
                                                          .w_KC = w_KC });
}

static void unit_add(Int8Weights *weights, const EngineSetup *g, int64_t unit)
{
    const ModelConfig *config = g->executor->ctx.config;
    UnitParam w = zero_unshard(g->executor->buckets, unit);
    if (model_unit(config, unit) == UNIT_BLOCK) {
        matrix_add(weights, g, unit_span(&w, PARAM_ATTENTION_QUERY_WEIGHT, PARAM_ATTENTION_VALUE_WEIGHT));
        matrix_add(weights, g, unit_param(&w, PARAM_ATTENTION_OUT_WEIGHT));
        matrix_add(weights, g, unit_span(&w, PARAM_MLP_GATE_WEIGHT, PARAM_MLP_UP_WEIGHT));
        matrix_add(weights, g, unit_param(&w, PARAM_MLP_DOWN_WEIGHT));
    } else if (model_unit(config, unit) == UNIT_HEAD)
        matrix_add(weights, g, unit_param(&w, config->tied ? PARAM_EMBED_TOKEN_WEIGHT : PARAM_HEAD_WEIGHT));
    zero_reshard(g->executor->buckets, unit);
}

void int8_weights_open(Int8Weights *weights, const EngineSetup *g)
{
    const ModelConfig *config = g->executor->ctx.config;
    *weights = (Int8Weights){ .matrix = NULL };
    if (!g->int8) return;
    CHECK(config->experts == 0 && config->latent.kv_rank == 0, "weights in 8 bits of a model with experts");
    weights->matrix = calloc((size_t)(MATRICES * model_units(config)), sizeof *weights->matrix);
    CHECK(weights->matrix, "no memory for the matrices of %lld units", (long long)model_units(config));
    for (int64_t unit = 0; unit <= model_head(config); unit++)
        if (stage_holds(g->executor->stage, unit)) unit_add(weights, g, unit);
    g->executor->ctx.int8 = weights;
}

void int8_weights_close(Int8Weights *weights, const EngineSetup *g)
{
    g->executor->ctx.int8 = NULL;
    free(weights->matrix);
}
