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
/* By the end of its name ("attention.out.weight"); absent (tensor_none) where the model has no such parameter. */
Tensor unit_param(const UnitParam *w, const char *suffix);
/* Parameters `first` to `last`, stored one after the other, as one: query, key and value are one matrix to a matmul. */
Tensor unit_span (const UnitParam *w, const char *first, const char *last);

typedef struct { Tensor out, lse; } AttentionSave;
typedef struct {
    Tensor x, mean1, rstd1, n1, qkv;  AttentionSave core;  Tensor x2, mean2, rstd2, n2, h, g;    /* forward; n1, n2 are shards */
    Tensor dy2, dh, dn2, dya, dqkv, dn1;                                                         /* left for backward_weight; dy2, dya gathered */
} BlockSave;
typedef struct { Tensor dy; } EmbedSave;
typedef struct { Tensor x, mean, rstd, n, logits, lse, dn; } HeadSave;
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
