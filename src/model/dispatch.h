#ifndef MODEL_DISPATCH_H
#define MODEL_DISPATCH_H
/* Private to this directory: the exchange of tokens among the ranks that share the experts of a layer
 * (expert parallelism: GShard, arXiv 2006.16668), and the sizes of its parts.
 *
 * Each token is sent by one rank: under sequence parallelism by the rank that holds it; without it every
 * tensor-parallel rank has all tokens, routes all in the same way and sends its share. All J ranks with
 * shards of an expert get a copy, and their partial outputs are added where the weights are applied. No copy
 * is dropped unless there is a capacity.
 *
 * Memory follows from shapes, never from data: buffers hold what all ranks together can send to one. With a
 * capacity that is bounded by it. Without one it would grow with the number P = R / J of parts that the
 * experts are divided into, up to P times the rows of equal loads; therefore tokens go in Q chunks, one after
 * another, each small enough that all ranks' rows of a chunk fit the J K T rows of equal loads.
 *
 * t tokens held   T of them sent by this rank, at most `most` on any rank   Q chunks, each of `each` tokens
 * at most   C channels   E experts of the model, X of them here   K experts of a token   F hidden channels of
 * an expert held here   R ranks of dispatch, J of them hold shards of one expert
 *
 *     uncapped = R most min(K, X)               rows that one rank can receive of all tokens
 *     Q = ceil(uncapped / (J K most)), or as many as `most` has; 1 with a capacity
 *     N = J K most                               rows sent at most, of all chunks
 *     M = R each min(K, X) <= J K most + R K     rows received at most, of one chunk
 *
 * With a capacity N is at most J E capacity and M at most R X capacity. */
#include "model/model_internal.h"

typedef struct {
    int64_t t, first, T, most, Q, each, K, E, X, R, J, N, M, C, F, capacity;
    bool    split;                       /* the tp ranks have the same tokens, and share the sending */
    bool    chunked;                     /* Q is above 1, but for very few tokens: rows are not saved */
} MoeSizes;

MoeSizes moe_sizes(const ExecContext *ctx, int64_t t);

/* Chunk q: its tokens of a tensor of all tokens held, [t, ...], and its rows of one of all rows sent,
 * [N, ...]; the order of its copies; the numbers of its rows [R, X]. Views. */
Tensor  moe_tokens(const MoeSizes *z, int64_t q, Tensor x_t);
Tensor  moe_rows  (const MoeSizes *z, int64_t q, Tensor x_N);
Tensor  moe_order (const MoeSizes *z, int64_t q, const MoeSave *save);                    /* [T of q, K, J] */
Tensor  moe_counts(int64_t q, Tensor count_QRX);
/* Rows of chunk q in the experts here if all experts had equal loads, which is counted as work. */
int64_t moe_equal_rows(const MoeSizes *z, int64_t q);

/* Makes order and numbers of the copies that this rank sends, and tells the ranks of dispatch how many each
 * gets of every chunk.  <-> etp+ep: all-to-all of Q X integers to each rank */
void dispatch_sort(const ExecContext *ctx, const MoeSizes *z, MoeSave *save);
/* Before the exchanges of a forward or backward: from the numbers of rows, which the host reads, to the
 * offsets of the all-to-alls. */
void dispatch_offsets(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save);
/* Rows [., C] of chunk q to the ranks of their experts and back, to be completed by comm_wait. With one rank
 * both tensors are one (dispatch_other), and nothing is sent.  <-> etp+ep: all-to-all */
Pending dispatch_send_begin  (const ExecContext *ctx, const MoeSizes *z, int64_t q, Tensor x_MC,
                              Tensor rows_NC);
Pending dispatch_return_begin(const ExecContext *ctx, const MoeSizes *z, int64_t q, Tensor rows_NC,
                              Tensor y_MC);
/* The other side of `itself` in an exchange, [rows, C] on `arena`. */
Tensor  dispatch_other(const ExecContext *ctx, const MoeSizes *z, Arena *arena, const char *what,
                       int64_t rows, Tensor itself);

/* ---- what is done with the rows: model/experts.c ---- */

/* back_NC, a save, = the outputs of experts for all rows sent, of tokens n. What else backward reads is saved
 * too where there is one chunk. <-> etp+ep */
void experts_forward        (const ExecContext *ctx, const MoeSizes *z, const UnitParam *w, MoeSave *save,
                             Tensor n_tC);
/* dn_NC = the gradients of the rows sent, from dy [t, C]. With several chunks it sends the tokens n again and
 * adds the weight gradients to dw as well. <-> etp+ep */
void experts_backward_input (const ExecContext *ctx, const MoeSizes *z, const UnitParam *w,
                             const UnitParam *dw, MoeSave *save, Tensor dn_NC, Tensor n_tC, Tensor dy_tC);
void experts_backward_weight(const ExecContext *ctx, const MoeSizes *z, const UnitParam *dw,
                             const MoeSave *save);
/* moe_act: g again, from h */
void experts_activation_forward(const ExecContext *ctx, const MoeSizes *z, MoeSave *save);

/* ---- the router and its losses: model/router.c ---- */

/* logits of the shared expert's gate, saved */
void gate_logits_forward   (const ExecContext *ctx, const UnitParam *w, MoeSave *save, Tensor n_tC);
/* logits = n wT, and of all tokens held the experts and their weights; saved */
void router_forward        (const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w,
                            MoeSave *save, Tensor n_tC);
/* dlogits from the gradients of the weights, and of the auxiliary losses;  dn += dlogits w. <-> tp+cp */
void router_backward_input (const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w,
                            MoeSave *save, Tensor dn_tC, Tensor dweight_tK);
void router_backward_weight(const ExecContext *ctx, const UnitParam *dw, const MoeSave *save, Tensor n_tC);
#endif
