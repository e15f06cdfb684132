#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H
/* Rotary position embedding (RoPE, Su et al. 2021, arXiv 2104.09864): which channels of a head turn, and how
 * fast. Pair i of the P pairs of R = 2 P rotated channels turns by position times frequency
 *
 *     f[i] = base^(-2 i / R)
 *
 * which a model for longer sequences than it was first trained for changes:
 *
 *     linear interpolation (Chen et al. 2023, arXiv 2306.15595)     f[i] / interpolation
 *     ROPE_LLAMA3   Llama 3.1 (arXiv 2407.21783; formula of Meta's reference model). With the wavelength
 *                   w = 2 pi / f[i] and the original length L:  f[i] where w < L / high;  f[i] / factor
 *                   where w > L / low;  between them (1 - s) f[i] / factor + s f[i] with
 *                   s = (L / w - low) / (high - low)
 *     ROPE_YARN     Peng et al. 2023, arXiv 2309.00071:  (1 - m[i]) f[i] / factor + m[i] f[i],  where m falls
 *                   from 1 to 0 between the pairs that turn `fast` and `slow` times in L positions. Pair
 *                   c(n) = R ln(L / (2 pi n)) / (2 ln base) turns n times; both ends are rounded outwards if
 *                   `rounded`. Cosines and sines are multiplied by
 *                       t(mscale) / t(mscale_all)  with  t(m) = 0.1 m ln(factor) + 1
 *                   with mscale_all 0 by t(mscale).
 *
 * None of these functions communicates or can fail. */
#include "tensor/ops.h"

typedef enum { ROPE_UNSCALED, ROPE_LLAMA3, ROPE_YARN } RopeScaling;

typedef struct {
    double  base;
    /* of layers with a sliding window, whose frequencies nothing changes (Gemma 3); 0: all layers have
     * `base` */
    double  local_base;
    int64_t channels;              /* R: the first of each head turn; 0: all of them */
    bool    interleaved;           /* pairs are channels 2 i and 2 i + 1; else i and i + P, as in Llama */
    double  interpolation;         /* 0: none */
    RopeScaling scaling;
    double  factor, original;      /* of the sequence length; L */
    double  low, high;             /* ROPE_LLAMA3 */
    double  fast, slow, mscale, mscale_all;        /* ROPE_YARN */
    bool    rounded;
} RopeConfig;

/* local: of a layer with a sliding window */
/* What DeepSeek multiplies scores by beside the softmax scale: t(mscale_all)^2 under ROPE_YARN, else 1 */
double   rope_score_scale(const RopeConfig *config);
RopeRule rope_rule(const RopeConfig *config, int64_t head_dim, bool local);
#endif
