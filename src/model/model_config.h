#ifndef MODEL_MODEL_CONFIG_H
#define MODEL_MODEL_CONFIG_H
/* What a model is: numbers alone, no layout. Units: embed, block 0..layers-1, head; unit u of layers + 2. */
#include "base/status.h"
#include "tensor/ops.h"

typedef enum { NORM_LAYER, NORM_RMS } NormKind;
typedef enum { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE } PositionKind;
typedef enum { UNIT_EMBED, UNIT_BLOCK, UNIT_HEAD } UnitKind;

typedef struct {
    int64_t layers, hidden, ffn, heads, groups, head_dim, vocabulary, positions, sequence;
    NormKind norm;  PositionKind position;  ActivationKind activation;
    double  epsilon, rope_base, hidden_dropout, attention_dropout, init_std;
    bool    bias, tied;
} ModelConfig;

int64_t  model_units(const ModelConfig *config);
UnitKind model_unit (const ModelConfig *config, int64_t unit);
int64_t  model_mlp_gates (const ModelConfig *config);                      /* 2 for SwiGLU (gate and up), else 1 */
int64_t  model_vocabulary_held(const ModelConfig *config, int tp);    /* rows a tp rank stores: ceil(vocabulary / tp); padding is storage only */
int64_t  model_parameters(const ModelConfig *config);                 /* logical, unpadded */
/* model FLOPs of one token, forward and backward; attention counted in full or causal (half) */
double   model_flops(const ModelConfig *config, bool causal);
#endif
