#ifndef MODEL_UNIT_H
#define MODEL_UNIT_H
/* A unit is what the model is a list of: the embedding, a transformer block, the head, or one depth of
 * multi-token prediction behind it. Each kind has three functions: forward, backward_input (the gradient of
 * the unit's input) and backward_weight (the gradients of its parameters). The two halves of backward are
 * apart so that a zero-bubble pipeline schedule can defer the second. No loop over units is here:
 * parallel/stage_executor.c has the only one.
 *
 * The letters of shapes are those of tensor/ops.def, and besides:
 *  T = b s tokens of the micro-batch held by the tensor-parallel group
 *  t of them held by this rank between regions: T / tp under sequence parallelism, else T
 *  b sequences   s positions of a sequence held here (S / cp)   u ranks of Ulysses
 *  O = H D channels of attention's output   Q = (H + 2 G) D rows of QKV: query, key and value together
 *  W rows of gate and up: 2 F with a gate, else F
 * An op names its arguments as its own legend does: its T is t or T here, its C and K the width of its input
 * and output. */
#include "comm/region.h"
#include "data/loader.h"
#include "model/params.h"
#include "tensor/precision.h"

/* The key-value caches of the layers, for generation: pages of keys and values (tensor/ops.def), and which of
 * them the T rows of a forward write and see. k [N, L, G, D], v [N, L, G, E] of N pages of L positions with
 * the G key-value heads that this rank holds; those of layers of other stages are absent. Where context
 * parallelism divides texts, each of its ranks has some of their pages, and all compute the same rows. All is
 * the caller's; integers are in host memory. */
typedef struct { Tensor k, v; } KvCache;
typedef struct {
    KvCache *layer;                /* [layers] */
    Tensor   page_i;               /* [I, M]: the pages here of each text, in order */
    Tensor   slot_i, sequence_i;   /* [T]: place of the row's key, -1: on another rank; its text */
    /* the keys here that each row sees, its own included, [T, 2]; of layers without and with a window */
    Tensor   key_range_i[2];
    Tensor   key_position_i;       /* with ALiBi and several cp ranks: of each place, [N, L] */
    Comm    *cp;
} KvCaches;

/* The linear maps of a block, and what each of them rounds to 8 bits: its input, weights and the gradient of
 * its output. */
typedef enum { LINEAR_QKV, LINEAR_OUT, LINEAR_UP, LINEAR_DOWN, LINEARS } LinearId;
typedef enum { FP8_X, FP8_W, FP8_DY, FP8_KINDS } Fp8Kind;
enum { FP8_TENSORS = LINEARS * FP8_KINDS };        /* of a block: number LinearId * FP8_KINDS + Fp8Kind */

/* Delayed scaling of the blocks that this rank has and whose maps take 8-bit inputs, n of them, in the order
 * of layers. All in F32. The names and shapes in checkpoints are those of one block's part. */
typedef struct {
    int    *row;                   /* [layers]: of the tensors below; -1: none. Owned by who opens it */
    int64_t rows;                  /* n */
    Tensor  scale;                 /* [n, FP8_TENSORS] */
    Tensor  amax;                  /* the same, of this step so far */
    Tensor  history;               /* [n, FP8_TENSORS, choice.history], of earlier steps: row fp8_scale */
    /* tp and cp: the ranks that hold parts of one tensor of a micro-batch. Current scaling takes the maximum
     * over them. */
    Comm   *amax_comm;
} Fp8State;

/* Of one block: [FP8_TENSORS] each. scale is absent where the maps are not of 8 bits, amax with current
 * scaling. */
typedef struct { Tensor scale, amax; } Fp8Scales;

/* Context parallelism: how attention reaches the keys of the other ranks that share a sequence. NULL: one
 * rank. The ranks of `ulysses` exchange heads for positions; those of `ring` send keys and values around, or
 * those of `gather` gather them. cp rank k is number k mod u of its ulysses comm and k / u of its ring.
 * overlap: keys and values are on their way around the ring while attention computes with others. */
typedef struct { Comm *ulysses, *ring, *gather; bool overlap; } ContextComms;

/* Of all layers of experts that this rank has, n of them, and the ranks that these communicate with. */
typedef struct {
    /* etp+ep: the ranks that share the experts of a layer, among which tokens are exchanged; rank
     * ep coordinate * etp + etp coordinate */
    Comm *dispatch;
    int   shards;                  /* etp: ranks with shards of the same experts */
    /* the ranks with other tokens of the same sequences: cp, under sequence parallelism tp+cp */
    Comm *sequence;
    int  *row;                     /* [layers]: of the tensors below; -1: none. Owned by who opens it */
    int64_t rows;                  /* n */
    Tensor bias_nE;                /* added to scores for selection; absent without it */
    /* of this step so far: copies that each expert takes, copies dropped, and both auxiliary losses without
     * their coefficients, as sums over tokens; absent where nothing is trained */
    Tensor load_nE;                /* [n, E + MOE_SUMS] */
    /* [moe_chunks x (ranks of dispatch + 1)] each: room for the offsets of exchanges; owned likewise */
    int64_t *offset[2];
    bool overlap;                  /* rows of one chunk are sent while experts compute another's */
} MoeState;
enum { MOE_DROPPED, MOE_BALANCE, MOE_Z, MOE_SUMS };

/* Weights in 8 bits for generation, beside those that they were made from: of the linear maps of blocks and
 * of the head. w: where the matrix lies, NULL in a dry run, in which every matrix has one. code and scale as
 * rows int8_quantize and, of experts, grouped_int8_matmul_forward of tensor/ops.def have them. */
typedef struct { const void *w; Tensor code, scale; } Int8Matrix;
typedef struct { Int8Matrix *matrix; int64_t count, found; } Int8Weights;   /* found: the last asked for */

/* What a unit runs with. The caller chooses the arenas, and so the lifetimes; a unit only names the one it
 * needs. */
typedef struct {
    const ModelConfig *config;
    Precision precision;           /* types of the tensors that units make */
    Queue  *queue;
    const Fp8State *fp8;           /* NULL: linear maps of 16 or 32 bits */
    const MoeState *moe;           /* NULL: no layer has experts */
    Region  tp;                    /* tensor parallelism; its activations may be sequence-parallel */
    ContextComms cp;               /* context parallelism */
    /* Forward writes its saves on these two: what backward_input alone reads, and what backward_weight reads
     * as well. They differ only where a whole unit is recomputed and weight gradients are deferred. */
    Arena  *activations, *activations_wgrad;
    /* backward_input writes, backward_weight reads: activations if it is deferred, else scratch */
    Arena  *wgrad_saved;
    Arena  *scratch;               /* reset after the unit */
    unsigned recompute;            /* RecomputeModules whose saves are computed again in backward */
    const Batch *batch;            /* the micro-batch; in host memory */
    const KvCaches *caches;        /* NULL in training */
    Int8Weights *int8;             /* generation in 8 bits; else NULL */
    bool    drop;                  /* dropout is on: training */
    bool    backward_follows;      /* training: the head leaves its loss to backward */
    /* The run also takes gradients of targets that the model draws (Sophia); `drawn`: now. Then there are no
     * losses but cross-entropy. */
    bool    draws, drawn;
    /* F64: the head adds { loss sum, tokens } of the micro-batch, once */
    Tensor  sums_2;
    /* the same of each depth of multi-token prediction, whose weights carry ModelConfig.mtp_factor, [N, 2];
     * absent without any */
    Tensor  mtp_sums_N2;
    /* generation: the head writes the logits after row logits_row[i] here, [n, V] of the V vocabulary rows
     * that this rank holds, and no loss; absent where none are wanted */
    Tensor  logits_bV;
    const int64_t *logits_row;     /* [n], in host memory. Not read in a dry run */
    int64_t head_chunk;            /* tokens whose logits exist at once; 0: as many as head.c chooses */
    /* Not NULL: backward_input of a block adds its weight gradients here too, while tp sums the gradients of
     * inputs; backward_weight is not called then. Of blocks for which unit_weight_beside is true. */
    const struct UnitParam *beside;
} ExecContext;

/* The hidden states (or their gradient) between two units, and between pipeline stages: `n` tensors, in the
 * decoder one of shape [t, C]. An encoder-decoder has two, of different sizes: the decoder's states and the
 * encoder's output. */
enum { HIDDEN_MAX = 2 };
typedef struct { Tensor t[HIDDEN_MAX]; int n; } Hidden;
typedef struct { int n; int64_t rows[HIDDEN_MAX], columns[HIDDEN_MAX]; } HiddenShape;

/* The parameter blocks of a unit: its own, its experts, and of other units number 0, the token embedding,
 * which the embedding, a tied head and multi-token prediction use, and an untied head's, which the last of
 * these uses. */
typedef enum { UNIT_OWN, UNIT_EXPERTS, UNIT_EMBEDDING, UNIT_SHARED_HEAD, UNIT_BLOCKS } UnitBlock;
/* The parameters of a unit, or their gradients: the layouts of its blocks, NULL for those it has not, and a
 * flat tensor for each. The layouts are owned by the caller. */
typedef struct UnitParam { const ParamBlock *block[UNIT_BLOCKS]; Tensor flat[UNIT_BLOCKS]; } UnitParam;

/* A view of the parameter, [experts, rows, columns], [rows, columns] or [rows]; tensor_none where this model
 * has none. A CHECK stops the job for a parameter that this kind of unit never has, since that is a
 * programming error and not an absent tensor. */
Tensor unit_param(const UnitParam *w, ParamId id);
/* One view of the parameters `first` to `last` (rows of model/params.def) that this model has, rows of the
 * first on top: query, key and value are one matrix to a matmul, as are gate and up. tensor_none where it has
 * none of them. */
Tensor unit_span (const UnitParam *w, ParamId first, ParamId last);

/* Parts of a block whose saves may be computed again in backward, to save memory (Korthikanti et al. 2022,
 * arXiv 2205.05198); the names are Megatron-LM's but for mlp_act. */
typedef enum {
    RECOMPUTE_CORE_ATTN = 1,       /* out, lse: attention itself, from qkv */
    RECOMPUTE_LAYERNORM = 2,       /* n1, n2 and the statistics of both norms */
    RECOMPUTE_MLP       = 4,       /* h, g: the first matrix and the activation, from n2 */
    RECOMPUTE_MLP_ACT   = 8,       /* g: the activation, from h; of a shared expert too */
    RECOMPUTE_MOE       = 16,      /* of a layer of experts x, h, g, back, and what shared_experts says */
    RECOMPUTE_MOE_ACT   = 32,      /* g of the experts, from h */
    RECOMPUTE_SHARED_EXPERTS = 64  /* h, g of a layer's shared expert, from n2 */
} RecomputeModules;

/* ---- what forward saves for backward, and backward_input for backward_weight ----
 * Tensors are views of activations where backward_input alone reads them (qkv, lse, h), else of
 * activations_wgrad or, where marked as left by backward_input, of wgrad_saved. A norm's statistics are rstd
 * and, except under RMSNorm, mean. */

typedef struct {
    Tensor out_TO;                 /* attention output, before the output projection */
    /* [b, s, H] log-sum-exp of the scores of each row over all keys; under Ulysses [b, u s, H / u] */
    Tensor lse_bsH;
} AttentionSave;

/* Of a layer of experts. Sizes: model/dispatch.h. Integers are I32. */
typedef struct {
    Tensor logits_tE;              /* router, in the type of statistics, as the weights */
    Tensor weight_tK, expert_tK;   /* of the experts of each token */
    /* copies of tokens, as route_sort orders them in each of Q chunks, its rows numbered from 0: sent by this
     * rank, and numbers of those sent to and received from each rank */
    Tensor row_TKJ, slot_N, sent_QRX, received_QRX;
    /* where the shared expert has a gate: its output before it, [t, C]; logits of the gate, as statistics */
    Tensor shared_tC, gate_t;
    Tensor back_NC;                /* outputs of experts for the copies that were sent */
    /* With one chunk; with several, room for one on scratch that nothing outlives. Rows received, by rank and
     * expert; before and after the activation */
    Tensor x_MC, h_MW, g_MF;

    /* left by backward_input: gradients of the logits and, with one chunk, of the experts' output and of h */
    Tensor dlogits_tE, dy_MC, dh_MW;
    Tensor dgate_t;                /* of the gate's logits */
} MoeSave;

/* Of a norm after a branch. */
typedef struct {
    Tensor x_tC;                   /* its input: the branch's output, with its bias */
    Tensor mean_t, rstd_t;
    Tensor dy_tC;                  /* left by backward_input: gradient of its output */
} NormAfterSave;

typedef struct {
    Tensor x_tC;                   /* aliases the unit's input: the caller keeps it until backward */
    Tensor mean1_t, rstd1_t;       /* norm 1 */
    /* output of norm 1, or x where there is none; under sequence parallelism this rank's rows, gathered again
     * in backward */
    Tensor n1_tC;
    /* query, key and value heads; RoPE has rotated queries and keys in place. Under Ulysses [u T, Q'] of a
     * part of the heads */
    Tensor qkv_TQ;
    /* With QK norm queries and keys before it, [T, (H + G) D] of own tokens, and of queries and of keys 1 /
     * root mean square, [T, heads] or [T, 1]. qkv has the normalized and rotated ones, which attention
     * reads. */
    Tensor qk_TR, qk_rstd_TM[2];
    /* With latent attention what the input is projected to, [T, P], of which the keys' rotated channels are
     * rotated, and the normalized latents of queries and of keys and values with their 1 / root mean square
     * */
    Tensor down_TP, latent_TR[2], latent_rstd_T[2];
    AttentionSave core;
    NormAfterSave after1;          /* attention's, where the layer has norms after its branches */
    Tensor x2_tC;                  /* x + dropout(attention) */
    Tensor mean2_t, rstd2_t;       /* norm 2 */
    Tensor n2_tC;                  /* output of norm 2 or x2, this rank's rows as n1 */
    Tensor h_TW, g_TF;             /* MLP: before the activation (without the bias), after it */
    MoeSave moe;                   /* in a layer of experts, whose h and g are those of its shared expert */
    NormAfterSave after2;          /* the MLP's, as after1 */
    Fp8Scales fp8;                 /* delayed scaling: views of Fp8State; current scaling: saved */

    /* Left by backward_input. Under sequence parallelism dy2 and dya are gathered from the t rows of the
     * branch's gradient; elsewhere they alias it. */
    Tensor dy2_TC, dh_TW, dn2_tC;      /* of the MLP's output, of h, of norm 2's output */
    Tensor dya_TC, dqkv_TQ, dn1_tC;    /* of attention's output, of qkv, of norm 1's output */
    /* of down, of kv_up's output [T, U], of the normalized latents */
    Tensor ddown_TP, dkv_TU, dlatent_TR[2];
    Tensor dqk_gain_ND[2];             /* of the gains of QK norm, one or as many as heads */
} BlockSave;

typedef struct {
    NormAfterSave norm;            /* of token embeddings, where the model has it; its dy is this one's */
    Tensor gain_C;                 /* a copy of the norm's gain */
    Tensor dy_tC;                  /* left by backward_input: gradient of the sum of embeddings */
} EmbedSave;

typedef struct { Tensor x_tC; } HeadSave;                          /* aliases the unit's input */

/* Of a depth of multi-token prediction. */
typedef struct {
    Tensor x_tC;                   /* aliases the unit's input, which a norm has left */
    Tensor e_tC;                   /* embeddings of the tokens ahead */
    Tensor mean_t[2], rstd_t[2];   /* of the norms of e and of x */
    Tensor n_tK;                   /* [t, 2 C]: both normalized, side by side */
    BlockSave block;               /* its input is the projection of n */
    Tensor z_tC;                   /* output of the block */
    EmbedSave embed;
} MtpSave;

typedef union { BlockSave block; EmbedSave embed; HeadSave head; MtpSave mtp; } UnitSave;

int64_t exec_rows(const ExecContext *ctx);                                  /* t of this batch */
/* tensors of the shape, not initialised */
Hidden  hidden_make(Arena *arena, const char *what, Dtype dtype, const HiddenShape *shape);
/* one tensor [t, C], not initialised */
Hidden  hidden_new(const ExecContext *ctx, Arena *arena, const char *what);

/* All three communicate over tp (region changes, softmax statistics) and, in attention, over cp. They cannot
 * fail.
 *
 * y = unit(x). The embedding ignores x and reads the batch. The head writes a y, its final norm's output,
 * only where multi-token prediction reads it; the last unit writes none, nor does a block whose y is absent:
 * it computes its saves alone. */
void unit_forward        (const ExecContext *ctx, int64_t unit, Hidden y, const UnitParam *w, UnitSave *save,
                          Hidden x);
/* dx from dy. The embedding writes no dx. The head and multi-token prediction start from the loss, and add dy
 * where there is one. Units that do not defer their weight gradients add them to dw; others do not. */
void unit_backward_input (const ExecContext *ctx, int64_t unit, Hidden dx, const UnitParam *w,
                          const UnitParam *dw, UnitSave *save, Hidden dy);
/* Whether the unit's weight gradients are computed by unit_backward_weight. Those of the head and of
 * multi-token prediction are computed by unit_backward_input, because the logits they need exist only there;
 * so are those of a layer whose tokens go
 * to experts in several chunks. The answer is the same for all micro-batches. */
bool unit_defers_weight(const ExecContext *ctx, int64_t unit);
/* How many chunks of tokens (model/dispatch.h) a layer sends to experts that are divided among `parts` ranks,
 * at most, without a capacity. */
int64_t moe_chunks(const ModelConfig *config, int64_t parts);
/* Whether weight gradients can be computed beside the messages of input gradients (ExecContext.beside). */
bool unit_weight_beside(const ModelConfig *config, int64_t unit);
/* dw += the gradients. Reads the save and the batch but no weights, so it may run at any time after
 * backward_input. */
void unit_backward_weight(const ExecContext *ctx, int64_t unit, const UnitParam *dw, UnitSave *save);
#endif
