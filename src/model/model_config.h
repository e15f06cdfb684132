#ifndef MODEL_MODEL_CONFIG_H
#define MODEL_MODEL_CONFIG_H
/* What a model is, independent of how it is distributed. A model is a list of units: unit 0 is the embedding,
 * units 1 to `layers` are the transformer blocks, unit layers + 1 is the head, and `mtp` units of multi-token
 * prediction follow it. Layers are counted through: those of multi-token prediction, one in each such unit,
 * are layer `layers` and the next, and are built as layer layers - 1. None of these functions communicates or
 * can fail. */
#include "base/status.h"
#include "model/moe_config.h"
#include "model/attention/rope.h"
#include "tensor/ops.h"

typedef enum { NORM_LAYER, NORM_RMS } NormKind;
/* POSITION_ALIBI: attention with linear biases (alibi_slope of tensor/ops.h) */
/* POSITION_SINUSOIDAL: fixed sines and cosines are added to the token embedding (sinusoid_forward) */
typedef enum {
    POSITION_LEARNED,
    POSITION_ROPE,
    POSITION_ALIBI,
    POSITION_NONE,
    POSITION_SINUSOIDAL
} PositionKind;
/* The number of a sequence's first position among the sines, as in fairseq, where 1 is that of padding */
enum { SINUSOID_FIRST = 2 };
/* Layers, counted from 0, of which the model may have more: those have no bit. */
enum { LAYER_SET_MOST = 1024 };
typedef struct { uint64_t bits[LAYER_SET_MOST / 64]; } LayerSet;
/* RMSNorm of queries and keys, before RoPE: of each head by itself with one gain for all heads (Qwen 3,
 * Gemma 3), or of the channels of all heads together, each with its own gain (OLMo 2) */
typedef enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ALL } QkNorm;
/* Where a block has norms: in front of attention and MLP (GPT-2, Llama), after them and before the residual
 * addition (OLMo 2), or both (Gemma 2). */
typedef enum { NORM_BEFORE, NORM_AFTER, NORM_BEFORE_AND_AFTER } NormPlacement;
/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads are linear in a
 * normalized latent of kv_rank channels, 0: no latent attention; queries in one of query_rank channels, 0:
 * in the layer's input. The last rope_dim of the head_dim channels of queries and keys are rotated; those
 * of a key are the same in all heads. A value has value_dim channels. epsilon: of the norms of latents, 0:
 * that of other norms. */
typedef struct { int64_t query_rank, kv_rank, rope_dim, value_dim; double epsilon; } LatentConfig;
typedef enum { UNIT_EMBED, UNIT_BLOCK, UNIT_HEAD, UNIT_MTP } UnitKind;
/* Depths of multi-token prediction. */
enum { MTP_MOST = 4 };

typedef struct {
    int64_t layers;                     /* transformer blocks, without those of multi-token prediction */
    /* multi-token prediction (DeepSeek-V3, arXiv 2412.19437): depths, of which each predicts one token
     * further; what the mean of their losses is multiplied by, where gradients are concerned */
    int64_t mtp;
    double  mtp_factor;
    /* width of the residual stream, of the MLP's hidden layer (without its gate) */
    int64_t hidden, ffn;
    /* query heads; key-value heads (grouped-query attention); channels of a head, of which the heads together
     * may have more or fewer than hidden */
    int64_t heads, groups, head_dim;
    int64_t vocabulary;                 /* token ids, without padding */
    /* routed experts of a layer, 0: its MLP is dense; width of an expert's hidden layer */
    int64_t experts, expert_ffn;
    MoeConfig moe;
    int64_t positions;                  /* rows of the learned position table; of other models unused here */
    int64_t sequence;                   /* tokens of a training sequence */
    NormKind norm;
    NormPlacement norm_placement;
    bool    gains_zero_centred;         /* norms multiply by 1 + gain, and gains begin at 0 */
    PositionKind position;
    ActivationKind activation;
    double  epsilon;                    /* of the norms */
    RopeConfig rope;                    /* where position is POSITION_ROPE */
    LayerSet   no_rope;                 /* layers whose queries and keys are not rotated */
    double  hidden_dropout, attention_dropout;     /* probabilities of being dropped */
    /* of the token embedding, rounded to the type of activations: Gemma's sqrt(hidden); 0: 1 */
    double  embedding_factor;
    bool    embedding_norm;             /* a norm of token embeddings, before learned positions (BLOOM) */
    double  logit_softcap;              /* logits are softcap tanh(logits / softcap); 0: none */
    double  logit_z_coefficient;        /* of the z-loss of logits, lse(logits)^2 of each token */
    double  init_std;                   /* standard deviation of normally initialised weights */
    double  embedding_std;              /* of embeddings; 0: init_std */
    /* Xavier: matrices are uniform with variance 2 / (inputs + outputs), those that end a branch too */
    bool    xavier;
    /* sliding window: positions that a query looks back on, its own one counted; 0: all before it */
    int64_t window;
    LayerSet unwindowed;                /* layers without that window */
    /* which linear maps have biases: query, key and value (GPT-2 and Qwen 2); attention's output (GPT-2); the
     * MLP's, as without experts */
    bool    qkv_bias, out_bias, mlp_bias;
    QkNorm  qk_norm;
    bool    qk_norm_decay;              /* weight decay applies to its gains */
    bool decay_all; /* weight decay applies to all parameters, biases and norms too (fairseq) */
    LatentConfig latent;                /* multi-head latent attention */
    double  softmax_scale;              /* what q . k is multiplied by; 0: 1 / sqrt(head_dim) */
    double  softcap;                    /* scores become softcap tanh(score / softcap) (Gemma 2); 0: not */
    bool    tied;                       /* the head uses the token embedding's weights */
} ModelConfig;

int64_t  model_units(const ModelConfig *config);                      /* layers + 2 + mtp */
UnitKind model_unit (const ModelConfig *config, int64_t unit);
int64_t  model_head (const ModelConfig *config);                      /* the head's unit */
int64_t  model_layers    (const ModelConfig *config);                 /* layers + mtp */
/* The layer of a unit, -1: it has none; the unit of a layer. */
int64_t  model_unit_layer(const ModelConfig *config, int64_t unit);
int64_t  model_layer_unit(const ModelConfig *config, int64_t layer);
/* Whether the last stage of a pipeline needs a copy of the token embedding: for a tied head, and for
 * multi-token prediction. */
bool     model_embedding_copied(const ModelConfig *config);
/* of attention in a layer; 0: none */
int64_t  model_window(const ModelConfig *config, int64_t layer);
/* Whether RoPE rotates the queries and keys of a layer, and how. */
bool     model_rope  (const ModelConfig *config, int64_t layer, RopeRule *rule);
/* channels of a value; what q . k is multiplied by */
int64_t  model_value_dim    (const ModelConfig *config);
double   model_softmax_scale(const ModelConfig *config);
bool     layer_set_has(const LayerSet *set, int64_t layer);
void     layer_set_add(LayerSet *set, int64_t layer);
/* The last of every n layers: n - 1, 2 n - 1, ...; 0: none */
LayerSet layer_set_every(int64_t n);
/* Whether a layer's MLP is experts; layers are counted from 0. */
bool     model_layer_is_moe(const ModelConfig *config, int64_t layer);
/* Width of a layer's dense MLP: in a layer of experts that of its shared expert, 0 where it has none. */
int64_t  model_layer_ffn(const ModelConfig *config, int64_t layer);
/* Key-value heads of one of tp ranks: with more ranks than heads each has one, as others do. */
int64_t  model_groups_held(const ModelConfig *config, int tp);
/* Whether a layer has norms in front of its branches, and after them. */
bool     model_norm_before(const ModelConfig *config, int64_t layer);
bool     model_norm_after (const ModelConfig *config, int64_t layer);
float    model_gain_offset(const ModelConfig *config);               /* of all norms, as in tensor/ops.def */
/* matrices of width ffn in `up`: 2 for a gated activation, else 1 */
int64_t  model_mlp_gates(const ModelConfig *config);

/* Vocabulary rows that a tensor-parallel rank stores: ceil(vocabulary / tp). The padding of the last ranks is
 * in memory only, never in checkpoints or counts. */
int64_t  model_vocabulary_held(const ModelConfig *config, int tp);
/* elements of all logical tensors, without padding; of those that one token uses: of the experts topk each */
int64_t  model_parameters(const ModelConfig *config);
int64_t  model_active_parameters(const ModelConfig *config);

/* Model FLOPs of one token, forward and backward, counted as in the appendix of PaLM (arXiv 2204.02311), with
 * attention counted in full or causally (half), in both cases within its window. Recomputation and other
 * overhead of the implementation does not count. */
double   model_flops(const ModelConfig *config, bool causal);
/* Of them those of one token in the forward pass of a layer (of multi-token prediction with its projection)
 * and of its parts: scores and what they weigh; the first matrix of a dense MLP; experts, and the first
 * matrix of the shared expert; the last map of either, which is not repeated where only what backward
 * reads is wanted (0: it is). */
typedef struct { double all, scores, mlp, experts, shared, last; } ForwardFlops;
ForwardFlops model_forward_flops(const ModelConfig *config, int64_t layer, bool causal);
#endif
