/* Weights in 8 bits: every matrix of the blocks and the head is quantized once. */
#include "generate/int8_weights.h"
#include <stdlib.h>
#include "tensor/int8.h"

enum { MATRICES = 9 };                                             /* of a unit at most */

/* One of n matrices */
static Tensor one_of(Tensor all, int64_t i, int64_t d0, int64_t d1, int64_t d2)
{
    Tensor one = all.data ? tensor_slice(all, 0, i, 1) : all;      /* a dry run has no addresses */
    return (Tensor){ .data = one.data, .dim = { d0, d1, d2, 1 }, .dtype = all.dtype,
                     .stride = { all.stride[1], all.stride[2], all.stride[3], 1 } };
}

static Int8Matrix *matrix_new(Int8Weights *weights, Tensor w)
{
    Int8Matrix *m = &weights->matrix[weights->count++];
    m->w = w.data;
    return m;
}

static void matrix_add(Int8Weights *weights, const EngineSetup *g, Tensor w_KC)
{
    if (!tensor_present(w_KC)) return;
    Int8Matrix *m = matrix_new(weights, w_KC);
    int64_t P = int8_panels(w_KC.dim[0]), B = int8_blocks(w_KC.dim[1]);
    Dtype statistic = g->executor->ctx.precision.statistic;
    m->code  = tensor_new(g->arena, "weights in 8 bits", U8, P, B, INT8_BYTES);
    m->scale = tensor_new(g->arena, "scales of weights", statistic, P, B, INT8_ROWS);
    int8_quantize(g->executor->ctx.queue, (Int8Quantize){ .code_PBN = m->code, .scale_PBR = m->scale,
                                                          .w_KC = w_KC });
}

static void experts_add(Int8Weights *weights, const EngineSetup *g, Tensor w_XKC)
{
    if (!tensor_present(w_XKC)) return;
    Int8Matrix *m = matrix_new(weights, w_XKC);
    int64_t X = w_XKC.dim[0], K = w_XKC.dim[1], C = w_XKC.dim[2], P = int8_panels(K), B = int8_blocks(C);
    Dtype statistic = g->executor->ctx.precision.statistic;
    m->code  = tensor_new(g->arena, "weights in 8 bits", U8, X, P, B, INT8_BYTES);
    m->scale = tensor_new(g->arena, "scales of weights", statistic, X, P, B, INT8_ROWS);
    for (int64_t x = 0; x < X; x++)
        int8_quantize(g->executor->ctx.queue, (Int8Quantize){
            .code_PBN = one_of(m->code, x, P, B, INT8_BYTES),
            .scale_PBR = one_of(m->scale, x, P, B, INT8_ROWS), .w_KC = one_of(w_XKC, x, K, C, 1) });
}

static void block_add(Int8Weights *weights, const EngineSetup *g, const UnitParam *w, bool experts)
{
    if (g->executor->ctx.config->latent.kv_rank > 0) {
        matrix_add(weights, g, unit_span(w, PARAM_LATENT_QUERY_DOWN, PARAM_LATENT_QUERY_WEIGHT));
        matrix_add(weights, g, unit_param(w, PARAM_LATENT_QUERY_UP));
        matrix_add(weights, g, unit_param(w, PARAM_LATENT_KV_UP));
    } else
        matrix_add(weights, g, unit_span(w, PARAM_ATTENTION_QUERY_WEIGHT, PARAM_ATTENTION_VALUE_WEIGHT));
    matrix_add(weights, g, unit_param(w, PARAM_ATTENTION_OUT_WEIGHT));
    matrix_add(weights, g, unit_span(w, PARAM_MLP_GATE_WEIGHT, PARAM_MLP_UP_WEIGHT));
    matrix_add(weights, g, unit_param(w, PARAM_MLP_DOWN_WEIGHT));
    if (!experts) return;
    experts_add(weights, g, unit_param(w, PARAM_EXPERTS_GATE_WEIGHT));
    experts_add(weights, g, unit_param(w, PARAM_EXPERTS_UP_WEIGHT));
    experts_add(weights, g, unit_param(w, PARAM_EXPERTS_DOWN_WEIGHT));
}

static void unit_add(Int8Weights *weights, const EngineSetup *g, int64_t unit)
{
    const ModelConfig *config = g->executor->ctx.config;
    UnitParam w = zero_unshard(g->executor->buckets, unit);
    if (model_unit(config, unit) == UNIT_BLOCK)
        block_add(weights, g, &w, w.block[UNIT_EXPERTS] != NULL);      /* some layers may have none even so */
    else if (model_unit(config, unit) == UNIT_HEAD)
        matrix_add(weights, g, unit_param(&w, config->tied ? PARAM_EMBED_TOKEN_WEIGHT : PARAM_HEAD_WEIGHT));
    zero_reshard(g->executor->buckets, unit);
}

void int8_weights_open(Int8Weights *weights, const EngineSetup *g)
{
    const ModelConfig *config = g->executor->ctx.config;
    *weights = (Int8Weights){ .matrix = NULL };
    if (!g->int8) return;
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
