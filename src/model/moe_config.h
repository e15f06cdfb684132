#ifndef MODEL_MOE_CONFIG_H
#define MODEL_MOE_CONFIG_H
/* The MLP of a layer as a mixture of experts: a router sends each token to `topk` of `experts` MLPs and adds
 * their outputs, weighted. Router and weights: tensor/route.h.
 *
 * Balancing. The auxiliary loss of a group of n tokens is  coefficient E sum over e of f[e] P[e]  with f[e]
 * = (tokens that have e among their topk highest scores) / (topk n), without a gradient, and P[e] = mean
 * score of e over the n tokens (Switch Transformer, arXiv 2101.03961, equation 4, for topk experts). Its
 * groups are
 *
 *     MOE_BALANCE_SEQUENCE      each sequence (Megatron-LM's seq_aux_loss; DeepSeek-V3, arXiv 2412.19437,
 *                               equation 17)
 *     MOE_BALANCE_MICRO_BATCH   the micro-batch of a data-parallel rank (Megatron-LM's aux_loss)
 *
 * The first does not depend on micro-batches or layout. Gradients here are sums over tokens that are divided
 * once by the number N of tokens with a loss, so the loss of a group is multiplied by n: together they are
 * the mean over the groups, times (all tokens) / N. Megatron-LM does this under --calculate-per-token-loss,
 * and else divides by the number of micro-batches and ranks, which is the same where every token has a loss.
 * The z-loss is z_coefficient lse(logits)^2 for each token (ST-MoE, arXiv 2202.08906, equation 5). Neither
 * is part of the reported loss, as in Megatron-LM.
 *
 * With `bias` a state is added to the scores for selection alone; after each step it grows by bias_rate for
 * experts with fewer tokens of the global batch than the mean, and falls for those with more (Wang et al.
 * 2024, arXiv 2408.15664). */
#include "tensor/route.h"

typedef enum { MOE_BALANCE_NONE, MOE_BALANCE_SEQUENCE, MOE_BALANCE_MICRO_BATCH } MoeBalance;

enum { MOE_LAYERS_MAX = 1024 };
typedef struct {
    int64_t   topk;                      /* experts of a token */
    RouteRule rule;
    int64_t   shared_ffn;                /* width of a dense MLP added for all tokens; 0: none */
    bool      shared_gate;               /* its output is multiplied by sigmoid(n w), as in Qwen 2 */
    MoeBalance balance;
    double    coefficient, z_coefficient;
    bool      bias;
    double    bias_rate;
    /* > 0: an expert takes at most ceil(factor topk n / experts) copies of the n tokens that one rank
     * dispatches from a micro-batch; by_position: the first, else those with the highest weights. 0: it
     * takes all. */
    double    capacity_factor;
    bool      by_position;
    /* bit l is set where layer l is dense */
    uint64_t  dense_layers[MOE_LAYERS_MAX / 64];
} MoeConfig;
#endif
