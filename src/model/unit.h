#ifndef MODEL_UNIT_H
#define MODEL_UNIT_H
/* A unit of the model and its three verbs. No loop over layers is here: parallel/stage_executor.c has the only one. */
#include "comm/region.h"
#include "data/loader.h"
#include "model/params.h"

/* Keys and values of earlier positions, for generation: one per block, [b, capacity, G, D] */
typedef struct { Tensor k, v; int64_t used; } Cache;

/* What a unit runs with. The arenas decide lifetimes, the unit does not know which they are. */
typedef struct {
    const ModelConfig *config;
    Queue  *queue;
    Region  tp;
    Comm   *cp;
    Arena  *activations;                /* what backward will read */
    Arena  *wgrad_saved;                  /* what backward_input leaves for backward_weight */
    Arena  *scratch;               /* gone after the unit */
    const Batch *batch;
    Cache  *cache;                 /* by block; NULL in training */
    bool    drop;                  /* dropout on: training */
    Tensor  sums_2;                /* F64: the head adds { loss sum, tokens }; absent: no loss is asked for */
} ExecContext;

/* What flows between units, and between stages: one tensor here, two in an encoder-decoder */
typedef struct { Tensor t[2]; int n; } Flow;

/* A unit's parameters (or their gradients) as views of its blocks' flat tensors: own, and word where the unit uses block 0 */
typedef struct { const ParamBlock *own, *word; Tensor flat_own, flat_word; } UnitParam;
/* The parameter as [rows, columns] or [rows]; tensor_none where this model has none. One that the unit's blocks cannot hold is a CHECK. */
Tensor unit_param(const UnitParam *w, ParamId id);
/* Those of the parameters `first` to `last` (rows of model/params.def) that this model has, as one: query, key and value are one
 * matrix to a matmul, gate and up as well. tensor_none where it has none of them. */
Tensor unit_span (const UnitParam *w, ParamId first, ParamId last);

/* What a unit's forward leaves for its backward, and backward_input for backward_weight. All tensors are views of `activations` or `wgrad_saved`.
 *  t tokens held (T / tp under sequence parallel, else T)   T tokens = b s   C channels   b sequences   s positions of one held here
 *  H query heads and G key-value heads held by this rank, of D channels    O = H D    K = (H + 2 G) D
 *  F hidden channels held by this rank    U rows of gate and up: 2 F where gated, else F    V vocabulary rows held by this rank
 *  Statistics of a norm: rstd [t], and mean [t], absent under RMSNorm.                                                             */
typedef struct { Tensor out_TO, lse_bsH; } AttentionSave;
typedef struct {
    Tensor x_tC;                              /* the unit's input itself, not a copy */
    Tensor mean1_t, rstd1_t, n1_tC;           /* norm 1; n1 is this rank's shard: its weights' gradients gather it again */
    Tensor qkv_TK;                            /* query, key and value heads, query and key turned in place by RoPE */
    AttentionSave core;
    Tensor x2_tC;                             /* x + attention */
    Tensor mean2_t, rstd2_t, n2_tC;           /* norm 2; n2 likewise a shard */
    Tensor h_TU, g_TF;                        /* before and after the activation */
    /* left by backward_input; gathered means: of all T tokens also under sequence parallel, where else it is the t-row gradient itself */
    Tensor dy2_TC, dh_TU, dn2_tC;             /* of the MLP's output (gathered), of h, of norm 2's output */
    Tensor dya_TC, dqkv_TK, dn1_tC;           /* of attention's output (gathered), of qkv, of norm 1's output */
} BlockSave;
typedef struct { Tensor dy_tC; } EmbedSave;
typedef struct {
    Tensor x_tC, mean_t, rstd_t, n_tC;        /* the unit's input itself; the final norm's */
    Tensor logits_TV;                         /* backward_input turns them into their gradient in place */
    Tensor lse_T;                             /* of logits over the whole vocabulary; not set where no loss is asked for */
    Tensor dn_tC;                             /* left by backward_input */
} HeadSave;
typedef union { BlockSave block; EmbedSave embed; HeadSave head; } UnitSave;

int64_t exec_rows(const ExecContext *ctx);                               /* t */
Flow flow_new(const ExecContext *ctx, Arena *arena, const char *what);      /* [t, C]: t = rows / tp under sequence parallel */

/* embed ignores x; the head writes no y, it adds to run->sums_2. */
void unit_forward        (const ExecContext *ctx, int64_t unit, Flow y, const UnitParam *w, UnitSave *save, Flow x);
/* embed writes no dx; the head ignores dy. Leaves in save what unit_backward_weight reads. */
void unit_backward_input (const ExecContext *ctx, int64_t unit, Flow dx, const UnitParam *w, UnitSave *save, Flow dy);
/* dw +=. Reads the save alone. */
void unit_backward_weight(const ExecContext *ctx, int64_t unit, const UnitParam *dw, UnitSave *save);
#endif
