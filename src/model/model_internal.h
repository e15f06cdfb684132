#ifndef MODEL_MODEL_INTERNAL_H
#define MODEL_MODEL_INTERNAL_H
/* Private to this directory: the forward, backward_input and backward_weight of each kind of unit and of the
 * two branches of a block. The letters of shapes are in model/unit.h. */
#include "model/unit.h"

/* Every dropout has a site number, which with the seed and the step makes its random key. Layer l uses SITES
 * l + these: attention probabilities, attention output, MLP output. The embedding uses SITES layers, those of
 * multi-token prediction the numbers after it. */
enum { SITE_SCORES, SITE_ATTENTION, SITE_MLP, SITES };
/* Of targets that the model draws, one for each token: no dropout has it. */
#define SITE_DRAWN_TARGETS UINT64_MAX

/* depth 0: the batch's tokens and their positions; else those that so many tokens later stand there, for
 * multi-token prediction, without positions */
void embed_unit_forward        (const ExecContext *ctx, int64_t depth, Tensor y_tC, const UnitParam *w,
                                EmbedSave *save);
void embed_unit_backward_input (const ExecContext *ctx, int64_t depth, EmbedSave *save, Tensor dy_tC);
void embed_unit_backward_weight(const ExecContext *ctx, int64_t depth, const UnitParam *dw,
                                const EmbedSave *save);

void block_forward        (const ExecContext *ctx, int64_t layer, Tensor y_tC, const UnitParam *w,
                           BlockSave *save, Tensor x_tC);
void block_backward_input (const ExecContext *ctx, int64_t layer, Tensor dx_tC, const UnitParam *w,
                           const UnitParam *dw, BlockSave *save, Tensor dy_tC);
void block_backward_weight(const ExecContext *ctx, int64_t layer, const UnitParam *dw, const BlockSave *save);

void head_forward         (const ExecContext *ctx, Tensor y_tC, const UnitParam *w, HeadSave *save,
                           Tensor x_tC);
void head_backward        (const ExecContext *ctx, Tensor dx_tC, const UnitParam *w, const UnitParam *dw,
                           const HeadSave *save, Tensor dy_tC);

/* Multi-token prediction (model/mtp.c) of a depth, from 1. */
void mtp_forward          (const ExecContext *ctx, int64_t depth, Tensor y_tC, const UnitParam *w,
                           MtpSave *save, Tensor x_tC);
void mtp_backward         (const ExecContext *ctx, int64_t depth, Tensor dx_tC, const UnitParam *w,
                           const UnitParam *dw, MtpSave *save, Tensor dy_tC);

/* A norm in front of the head's matrix: n = norm(x) of this rank's rows, and its statistics, on scratch. */
typedef struct { Tensor x_tC, gain_C, bias_C, mean_t, rstd_t, n_tC; } FinalNorm;
FinalNorm final_norm_forward (const ExecContext *ctx, Tensor x_tC, Tensor gain_C, Tensor bias_C);
/* dgain and dbias are added to. */
void      final_norm_backward(const ExecContext *ctx, Tensor dx_tC, Tensor dgain_C, Tensor dbias_C,
                              const FinalNorm *norm, Tensor dn_tC);
/* What the head predicts: targets and their weights [T], and the { loss sum, weights } that it adds to. */
typedef struct { Tensor target_i, loss_weight_T, sums_2; } LossTargets;
/* The loss, and the gradients of n, [t, C] on scratch, and of the head's matrix.  <-> tp: all-gather of
 * statistics; entering the region */
Tensor    head_loss_backward (const ExecContext *ctx, const UnitParam *w, const UnitParam *dw,
                              const LossTargets *targets, Tensor n_tC);

/* The branches of a block between norm and dropout, forward without the last linear map. <-> tp: entering and
 * leaving a region (comm/region.h); attention also <-> cp. Recomputation repeats mlp_hidden_forward, or
 * mlp_activation_forward, which is the second half of it. backward_input returns the gradient [t, C] of the
 * norm's output, on wgrad_saved. */
void   attend_forward        (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                              Tensor n1_tC);
Tensor attend_backward_input (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                              Tensor dy_tC);
void   attend_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);
void   mlp_hidden_forward    (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC);
void   mlp_activation_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save);
Tensor mlp_backward_input    (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dy_tC);
void   mlp_backward_weight   (const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);

/* The experts of a layer and its shared expert, as the MLP's functions above. y = the sum of both, [t, C] on
 * `arena`; NULL: y is not computed. Where weight gradients are not deferred (moe_defers_weight),
 * backward_input adds those of the experts to dw. <-> etp+ep: all-to-all; <-> tp; backward_input also
 * <-> tp+cp */
Tensor moe_forward        (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                           Tensor n2_tC, Arena *arena);
void   moe_recompute      (const ExecContext *ctx, const UnitParam *w, BlockSave *save, unsigned modules);
Tensor moe_backward_input (const ExecContext *ctx, int64_t layer, const UnitParam *w, const UnitParam *dw,
                           BlockSave *save, Tensor dy_tC);
void   moe_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);
bool   moe_defers_weight  (const ExecContext *ctx);

/* y = x wT (+ bias), by the weights in 8 bits where there are such. */
void      product_forward       (const ExecContext *ctx, Tensor y_TK, Tensor x_TC, Tensor w_KC,
                                 Tensor bias_K);
/* The same of experts, for rows in segments as grouped_matmul_forward has them */
void      grouped_product_forward(const ExecContext *ctx, Tensor y_MF, Tensor x_MC, Tensor w_XFC,
                                  Tensor count_RX, int64_t rows);
/* The linear maps of a block (model/linear.c), in the activation type or with inputs of 8 bits. linear_scales
 * precedes them: it says which, and where the scales are. Current scaling <-> tp+cp in the first two. */
Fp8Scales linear_scales         (const ExecContext *ctx, int64_t layer);
void      linear_forward        (const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_TK,
                                 Tensor x_TC, Tensor w_KC, Tensor bias_K);
/* For a forward that is repeated for its saves alone, without y. */
void      linear_forward_scales (const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor x_TC,
                                 Tensor w_KC);
/* h = x wT,  y = act(h + bias) */
void      linear_activation_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_TF,
                                    Tensor h_TK, Tensor x_TC, Tensor w_KC, Tensor bias_K);
/* The end of a branch: end.y = end.residual + drop(x wT + end.bias), where x wT is summed over tp. end.x is
 * absent. <-> tp: all-reduce | reduce-scatter */
void      linear_residual_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor x_TC,
                                  Tensor w_KC, DropoutForward end);
/* y = x wT + bias, where x wT is summed over tp; of this rank's rows. <-> tp: all-reduce | reduce-scatter */
void      linear_leave_forward  (const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_tK,
                                 Tensor x_TC, Tensor w_KC, Tensor bias_K);
void      linear_backward_input (const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor dx_TC,
                                 Tensor dy_TK, Tensor w_KC);
void      linear_backward_weight(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor dw_KC,
                                 Tensor dy_TK, Tensor x_TC);

/* Core attention (model/attention/core_attention.c): output and log-sum-exp of queries over the keys of all
 * context-parallel ranks, and the gradients. Rows of qkv are query heads, key heads, value heads.
 * core_qkv_new is where the projections write them, [T, Q], and core_attention_enter returns what forward and
 * backward read: the same, or under Ulysses the rows of u ranks with a part of the heads. dqkv is [T, Q],
 * d_out [T, O]. <-> cp, by ContextComms: send, all-to-all, all-gather, reduce-scatter */
Tensor core_qkv_new           (const ExecContext *ctx, int64_t rows, int64_t cols);
Tensor core_attention_enter   (const ExecContext *ctx, Tensor qkv_TQ);
void   core_attention_forward (const ExecContext *ctx, int64_t layer, AttentionSave *save, Tensor qkv);
void   core_attention_backward(const ExecContext *ctx, int64_t layer, Tensor dqkv, const AttentionSave *save,
                               Tensor qkv, Tensor d_out);

/* QK norm (model/attention/qk_norm.c), in place on the query and key heads of qkv and of its gradient;
 * nothing where the model has none. Over all heads <-> tp: all-reduce */
void qk_norm_forward        (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor qkv_TQ);
void qk_norm_backward_input (const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dqkv_TQ);
void qk_norm_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save);

/* Latent attention (model/attention/latent.c): qkv as core_qkv_new makes it, from the input n of the
 * region; the gradient of n from that of qkv, where dn is new; the weights' gradients. Communicates
 * nothing. */
int64_t latent_columns       (const ExecContext *ctx);        /* of query, key and value: H (2 D + E) */
Tensor latent_forward        (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                              Tensor n_TC);
void   latent_backward_input (const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                              Tensor dqkv_TQ);
Tensor latent_down_weight    (const UnitParam *w);
void   latent_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save,
                              Tensor n_TC);

/* Generation (model/attention/kv_cache.c): puts keys and values of a forward into the layer's cache. */
void    kv_cache_write(const ExecContext *ctx, int64_t layer, Tensor qkv_TQ);

/* New tensors [rows, cols] of the activation type, named `what` in the memory table, on the arena of that
 * lifetime. */
Tensor  activation_new (const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);
Tensor  wgrad_saved_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);
Tensor  scratch_new    (const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);

double  exec_dropout(const ExecContext *ctx, double p);        /* p in training, else 0 */
/* A gradient that a region's boundary changes from t to T rows or back. Under sequence parallelism the result
 * is a new tensor, and this one is on scratch; else it is the result, which backward_weight reads, and on
 * wgrad_saved. */
Tensor  region_gradient_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols);
/* Where weight gradients are deferred, the gradient of a save that backward_input alone reads, and that
 * `modules` do not compute again, takes the save's memory (the save is at least as large), so that a slot
 * does not have to hold both: activation_gradient_new is then on scratch, and activation_gradient_keep moves
 * it, when the save has been read for the last time. Elsewhere the gradient stays on wgrad_saved. */
Tensor  activation_gradient_new (const ExecContext *ctx, const char *what, unsigned modules, int64_t rows,
                                 int64_t cols);
Tensor  activation_gradient_keep(const ExecContext *ctx, unsigned modules, Tensor save, Tensor gradient);
/* The arena of a save: scratch where one of the modules is recomputed in backward, else the given one. */
Arena  *save_arena(const ExecContext *ctx, unsigned modules, Arena *arena);
/* The context in which backward_input repeats parts of forward: what it makes lives as long as backward. */
ExecContext exec_recompute(const ExecContext *ctx);
/* Returns y [t, C] and the statistics that backward reads, all saved. *mean_t is absent under RMSNorm. */
Tensor  norm_unit_forward(const ExecContext *ctx, Tensor *mean_t, Tensor *rstd_t, Tensor x_tC, Tensor gain_C,
                          Tensor bias_C);
/* Of a norm after a branch, whose output save->x is: returns y [t, C] on scratch and saves the statistics. */
Tensor  norm_after_forward(const ExecContext *ctx, NormAfterSave *save, Tensor gain_C, Tensor bias_C);
#endif
