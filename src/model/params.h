#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H
/* The logical tensors, one row each, and the blocks they are stored in.
 *
 * A ParamBlock is what is gathered, reduced and updated as one: one flat run of this rank's parts (tensor parallelism has cut
 * them), tp-split parameters first, replicated ones last. Block 0 is the word embedding (shared with the head where tied), block
 * 1 + u is unit u's own. A unit uses its own block and, embed and a tied head, block 0.                                     */
#include "model/model_config.h"
#include "tensor/tensor_shard.h"

typedef enum { TP_REPLICATED, TP_ROWS, TP_COLUMNS, TP_VOCABULARY } TpSharding;                /* how tp splits: TP_VOCABULARY by padded rows */
typedef enum { INIT_NORMAL, INIT_DEPTH, INIT_ZERO, INIT_ONE } Init;               /* INIT_DEPTH: std / sqrt(2 layers) */

/* PARAM_EMBED_TOKEN_WEIGHT ...: what a parameter is asked for by, in the order of model/params.def */
typedef enum {
#define PARAM(id, ...) PARAM_##id,
#include "model/params.def"
#undef PARAM
    PARAM_IDS
} ParamId;

typedef struct {
    ParamId id;
    char    name[64];                 /* in checkpoints, dry runs and messages; nothing is found by it */
    int     dims;
    int64_t global[2], local[2];      /* logical; stored here (tp-cut, vocabulary padded) */
    int64_t offset[2], box[2];        /* what part of the logical tensor the stored one is: box below local where padded */
    int64_t at;                       /* first element in the block */
    TpSharding     cut;  Init init;  bool decay;
} Param;

enum { PARAM_ABSENT = -1, PARAM_ELSEWHERE = -2 };      /* this model has none; it is stored in another kind of block */
typedef struct {
    int64_t index;                    /* 0 word, 1 + unit */
    int     params;
    Param   param[PARAM_IDS];         /* one place for each row of params.def, so no block can have more than fit */
    int8_t  index_of[PARAM_IDS];      /* in param[], or PARAM_ABSENT, or PARAM_ELSEWHERE */
    int64_t count;                    /* elements stored, without padding to shards */
    int64_t replicated;                   /* elements from here on are the same on all tp ranks */
} ParamBlock;

int64_t params_blocks(const ModelConfig *config);                                      /* units + 1 */
void    params_block (ParamBlock *block, const ModelConfig *config, int64_t index, int tp, int tp_rank);
/* the shard of parameter p that lies in [first, first + count) of the block; .count == 0 where none does; .local is left to the caller */
TensorShard   params_tensor_shard (const ParamBlock *block, int p, int64_t first, int64_t count);
void    params_init  (Queue *q, const ModelConfig *config, const ParamBlock *block, Tensor flat, int64_t first, uint64_t seed);   /* flat: elements [first, ..) of the block */
#endif
