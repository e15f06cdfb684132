#ifndef PLAN_SIZE_RULE_H
#define PLAN_SIZE_RULE_H
/* Models of one family by their depth alone, and what their training takes. Rules of published work as
 * functions of numbers; each names its source. */
#include <stdint.h>

typedef struct { int64_t layers, width, heads; } ModelShape;
/* width = aspect x depth and a head of `aspect` channels for each layer: GPT-2 124M and GPT-3 125M are depth
 * 12 of aspect 64. */
ModelShape size_rule_shape(int64_t depth, int64_t aspect);

/* Peak learning rate of AdamW for a model of so many parameters without embeddings: 0.003239 - 0.0001395
 * ln(N), of Kaplan et al. (arXiv 2001.08361, appendix D.6), who fitted it to models of 768 to 1.5e9
 * parameters; at least 1e-4, where the formula leaves that range. */
double size_rule_lr(double parameters);
/* Tokens of a batch, 0.2920 C^0.3271, for runs of C FLOPs = (72 layers width^2 + 12 layers width sequence) x
 * tokens: Bi et al. (DeepSeek LLM, arXiv 2401.02954, equations 1 and 2), who fitted it to runs of 1e17 to
 * 2e19 FLOPs. Not more than tokens / 512, so that a small run has 512 steps. */
double size_rule_batch(ModelShape shape, int64_t sequence, double tokens);
/* These tokens in samples, rounded to a multiple of a quarter of a power of two, so that the batch neither
 * jumps from size to size nor falls into small micro-batches. */
int64_t size_rule_samples(double tokens, int64_t sequence);
/* Micro-batches of up to 2048 tokens that divide the samples of each data-parallel rank. */
int64_t size_rule_micro(int64_t samples, int64_t ranks, int64_t sequence);
#endif
