#ifndef TENSOR_ROUTE_H
#define TENSOR_ROUTE_H
/* How a router turns logits into experts and weights; the formulas are at route_forward in tensor/ops.def.
 *
 *     softmax after selection        Mixtral (arXiv 2401.04088), and Megatron-LM's default
 *     softmax before (pre_softmax)   Switch Transformer (arXiv 2101.03961), DeepSeek-V2 (arXiv 2405.04434)
 *     sigmoids over their sum         DeepSeek-V3 (arXiv 2412.19437)
 *     groups of experts              chosen first, by the highest score of each (DeepSeek-V2) or by the sum
 *                                    of the two highest (DeepSeek-V3)
 *
 * A softmax over the selected logits is the same as a softmax over all, renormalised over the selected. */
#include <stdbool.h>
#include <stdint.h>

typedef enum { ROUTE_SOFTMAX, ROUTE_SIGMOID } RouteScore;
typedef struct {
    RouteScore score;
    bool    pre_softmax;                 /* the softmax is over all experts; not with sigmoids */
    int64_t groups, group_topk;          /* 0: no groups. groups divides E */
    /* scores of a group whose sum ranks it, its best ones; 0: K / group_topk, which divides K then */
    int64_t group_best;
    double  scale;
} RouteRule;

static inline int64_t route_group_best(const RouteRule *rule, int64_t K)
{
    return rule->group_best > 0 ? rule->group_best : K / rule->group_topk;
}

/* Whether a token finds its K of E experts in the groups that it takes. */
static inline bool route_groups_fit(const RouteRule *rule, int64_t E, int64_t K)
{
    if (rule->groups == 0) return true;
    if (rule->groups < 0 || rule->group_topk < 1 || rule->group_topk > rule->groups || E % rule->groups)
        return false;
    int64_t each = E / rule->groups;
    return (rule->group_best > 0 || K % rule->group_topk == 0) && route_group_best(rule, K) <= each &&
           K <= rule->group_topk * each;
}
#endif
