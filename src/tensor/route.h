#ifndef TENSOR_ROUTE_H
#define TENSOR_ROUTE_H
/* How a router turns logits into experts and weights; the formulas are at route_forward in tensor/ops.def.
 *
 *     softmax after selection        Mixtral (arXiv 2401.04088), and Megatron-LM's default
 *     softmax before (pre_softmax)   Switch Transformer (arXiv 2101.03961), DeepSeek-V2 (arXiv 2405.04434)
 *     sigmoids over their sum         DeepSeek-V3 (arXiv 2412.19437)
 *     groups of experts              DeepSeek-V3: the sum of the best experts of a group chooses groups first
 *
 * A softmax over the selected logits is the same as a softmax over all, renormalised over the selected. */
#include <stdbool.h>
#include <stdint.h>

typedef enum { ROUTE_SOFTMAX, ROUTE_SIGMOID } RouteScore;
typedef struct {
    RouteScore score;
    bool    pre_softmax;                 /* the softmax is over all experts; not with sigmoids */
    int64_t groups, group_topk;          /* 0: no groups. groups divides E, group_topk K */
    double  scale;
} RouteRule;
#endif
