#ifndef MODEL_ROOMS_H
#define MODEL_ROOMS_H
/* Private to this room: the three verbs of each kind of unit, and of the parts of a block.   t, T, C: see model/block.c */
#include "model/unit.h"

/* Dropout sites of layer l are 3 l + these; the embedding's is past them all. Attention probabilities, attention output, MLP output. */
enum { SITE_SCORES, SITE_ATTENTION, SITE_MLP, SITES };

void embed_unit_forward        (const Run *run, Tensor y_tC, const UnitParam *w);
void embed_unit_backward_input (const Run *run, EmbedSave *save, Tensor dy_tC);
void embed_unit_backward_weight(const Run *run, const UnitParam *dw, const EmbedSave *save);

void block_forward        (const Run *run, int64_t layer, Tensor y_tC, const UnitParam *w, BlockSave *save, Tensor x_tC);
void block_backward_input (const Run *run, int64_t layer, Tensor dx_tC, const UnitParam *w, BlockSave *save, Tensor dy_tC);
void block_backward_weight(const Run *run, const UnitParam *dw, const BlockSave *save);

void head_forward        (const Run *run, const UnitParam *w, HeadSave *save, Tensor x_tC);
void head_backward_input (const Run *run, Tensor dx_tC, const UnitParam *w, HeadSave *save);
void head_backward_weight(const Run *run, const UnitParam *dw, const HeadSave *save);

/* Attention between its norm and its dropout; the result lies in scratch. */
Tensor attend_forward        (const Run *run, int64_t layer, const UnitParam *w, BlockSave *save, Tensor n1_tC);
Tensor attend_backward_input (const Run *run, int64_t layer, const UnitParam *w, BlockSave *save, Tensor dy_tC);   /* dn1, in keep */
void   attend_backward_weight(const Run *run, const UnitParam *dw, const BlockSave *save);
Tensor mlp_forward           (const Run *run, const UnitParam *w, BlockSave *save, Tensor n2_tC);
Tensor mlp_backward_input    (const Run *run, const UnitParam *w, BlockSave *save, Tensor dy_tC);                  /* dn2, in keep */
void   mlp_backward_weight   (const Run *run, const UnitParam *dw, const BlockSave *save);

/* o and lse of local queries over the keys of all cp ranks, and back (model/ring.c). Inside qkv: query heads, key heads, value heads. */
void ring_forward (const Run *run, int64_t layer, AttentionSave *save, Tensor qkv);
void ring_backward(const Run *run, int64_t layer, Tensor dqkv, const AttentionSave *save, Tensor qkv, Tensor d_out);

Tensor  save_new(const Run *run, const char *what, int64_t rows, int64_t cols);        /* on flight */
Tensor  keep_new(const Run *run, const char *what, int64_t rows, int64_t cols);
Tensor  scratch_new(const Run *run, const char *what, int64_t rows, int64_t cols);
double  run_dropout(const Run *run, double p);                                         /* p in training, else 0 */
Region  region_keep(const Run *run);                                                   /* run->tp, making its tensors in keep */
Tensor  norm_unit_forward(const Run *run, const UnitParam *w, const char *name, Tensor *mean, Tensor *rstd, Tensor x_tC);  /* on flight */
void    norm_unit_backward_weight(const Run *run, const UnitParam *dw, const char *name, Tensor dn_tC, Tensor x_tC, Tensor mean, Tensor rstd);
#endif
