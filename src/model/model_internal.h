#ifndef MODEL_MODEL_INTERNAL_H
#define MODEL_MODEL_INTERNAL_H
/* Private to this room: the three verbs of each kind of unit, and of the parts of a block.   t, T, C: see model/block.c */
#include "model/unit.h"

/* Dropout sites of layer l are 3 l + these; the embedding's is past them all. Attention probabilities, attention output, MLP output. */
enum { SITE_SCORES, SITE_ATTENTION, SITE_MLP, SITES };

void embed_unit_forward        (const ExecContext *ctx, Tensor y_tC, const UnitParam *w);
void embed_unit_backward_input (const ExecContext *ctx, EmbedSave *save, Tensor dy_tC);
void embed_unit_backward_weight(const ExecContext *ctx, const UnitParam *dw, const EmbedSave *save);

void block_forward        (const ExecContext *ctx, int64_t layer, Tensor y_tC, const UnitParam *w, BlockSave *save, Tensor x_tC);
void block_backward_input (const ExecContext *ctx, int64_t layer, Tensor dx_tC, const UnitParam *w, BlockSave *save, Tensor dy_tC);
void block_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);

void head_forward        (const ExecContext *ctx, const UnitParam *w, HeadSave *save, Tensor x_tC);
void head_backward_input (const ExecContext *ctx, Tensor dx_tC, const UnitParam *w, HeadSave *save);
void head_backward_weight(const ExecContext *ctx, const UnitParam *dw, const HeadSave *save);

/* Attention between its norm and its dropout; the result lies in scratch. */
Tensor attend_forward        (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor n1_tC);
Tensor attend_backward_input (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor dy_tC);   /* dn1, in wgrad_saved */
void   attend_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);
Tensor mlp_forward           (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC);
Tensor mlp_backward_input    (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dy_tC);                  /* dn2, in wgrad_saved */
void   mlp_backward_weight   (const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);

/* o and lse of local queries over the keys of all cp ranks, and back (model/ring.c). Inside qkv: query heads, key heads, value heads. */
void ring_forward (const ExecContext *ctx, int64_t layer, AttentionSave *save, Tensor qkv);
void ring_backward(const ExecContext *ctx, int64_t layer, Tensor dqkv, const AttentionSave *save, Tensor qkv, Tensor d_out);

Tensor  activation_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);        /* on activations */
Tensor  wgrad_saved_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);
Tensor  scratch_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);
double  exec_dropout(const ExecContext *ctx, double p);                                         /* p in training, else 0 */
Region  region_wgrad_saved(const ExecContext *ctx);                                                   /* run->tp, making its tensors in wgrad_saved */
/* y, with the statistics backward reads: all on activations. mean is absent under RMSNorm */
Tensor  norm_unit_forward(const ExecContext *ctx, Tensor *mean_t, Tensor *rstd_t, Tensor x_tC, Tensor gain_C, Tensor bias_C);
#endif
