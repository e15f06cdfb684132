#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H
/* The logical tensors of a model, one row of model/params.def each, and the parameter blocks they are stored
 * in.
 *
 * A ParamBlock is one contiguous range of memory: what is gathered, reduced and updated together. It holds
 * this rank's tensor-parallel shards first, then the replicated tensors. Parameter block 0 is the token
 * embedding, which a tied head shares; parameter block 1 + u belongs to unit u. So a unit uses its own block,
 * and the embedding and a tied head use block 0 as well. Nothing here communicates or allocates. */
#include "model/model_config.h"
#include "tensor/tensor_shard.h"

/* How tensor parallelism splits a tensor: not at all, by rows (column-parallel maps: their outputs), by
 * columns (row-parallel maps: their inputs), or by rows of the vocabulary, which is padded to equal
 * shards. */
typedef enum { TP_REPLICATED, TP_ROWS, TP_COLUMNS, TP_VOCABULARY } TpSharding;
/* Normal with standard deviation std; INIT_DEPTH: with std / sqrt(2 layers), as GPT-2 initialises the
 * maps that end a residual branch; zeros; ones. */
typedef enum { INIT_NORMAL, INIT_DEPTH, INIT_ZERO, INIT_ONE } Init;

/* PARAM_EMBED_TOKEN_WEIGHT ..., in the order of model/params.def. Code asks for a parameter by this number,
 * never by name. */
typedef enum {
#define PARAM(id, ...) PARAM_##id,
#include "model/params.def"
#undef PARAM
    PARAM_IDS
} ParamId;

typedef struct {
    ParamId id;
    char    name[64];                 /* in checkpoints, dry runs and messages */
    int     dims;                     /* 1 or 2; with one dimension the columns are 1 */
    int64_t global[2];                /* rows and columns of the logical tensor */
    int64_t local[2];                 /* stored on this rank: split by tp, the vocabulary padded */
    /* the part of the logical tensor stored here; box < local where there is padding */
    int64_t offset[2], box[2];
    int64_t at;                       /* first element in the block */
    TpSharding sharding;
    Init    init;
    bool    decay;                    /* weight decay applies */
} Param;

enum {
    PARAM_ABSENT = -1,                /* this model has no such parameter */
    PARAM_ELSEWHERE = -2         /* another kind of block stores it: asking this one is a programming error */
};

typedef struct {
    int64_t index;                    /* 0: token embedding; 1 + unit */
    int     params;                   /* entries of param in use */
    /* one entry for each row of params.def, so no block can have more than fit */
    Param   param[PARAM_IDS];
    int8_t  index_of[PARAM_IDS];      /* index in param, or PARAM_ABSENT, or PARAM_ELSEWHERE */
    int64_t count;                    /* elements stored, without the padding to ZeRO shards */
    int64_t replicated;               /* elements from here on are the same on all tp ranks */
} ParamBlock;

int64_t params_blocks(const ModelConfig *config);                        /* units + 1 */
/* Block `index` as tensor-parallel rank tp_rank of tp stores it. tp divides all dimensions that it splits:
 * options check it. */
void    params_block (ParamBlock *block, const ModelConfig *config, int64_t index, int tp, int tp_rank);

/* The part of entry p of the block within its elements [first, first + count). .count is 0 where they have
 * none of it; .local is left to the caller. */
TensorShard params_tensor_shard(const ParamBlock *block, int p, int64_t first, int64_t count);

/* Initialises flat [n], the elements [first, first + n) of the block. A value depends on (seed, name, index
 * in the logical tensor) alone, so every layout gets the same weights. Padding is 0. */
void    params_init(Queue *q, const ModelConfig *config, const ParamBlock *block, Tensor flat, int64_t first,
                    uint64_t seed);
#endif
