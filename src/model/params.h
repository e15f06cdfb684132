#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H
/* The logical tensors of a model, one row of model/params.def each, and the parameter blocks they are stored
 * in.
 *
 * A ParamBlock is one contiguous range of memory: what is gathered, reduced and updated together. There are
 * two families. Dense block 0 is the token embedding, which a tied head shares; dense block 1 + u belongs to
 * unit u. Block 1 + u of the experts has the routed experts of unit u, whose data-parallel ranks are others.
 * So a unit uses its own blocks; the embedding, a tied head and multi-token prediction use block 0 as well,
 * and the last of these the head's, where it has weights of its own. Each parameter says
 * what is known of it: how ranks split it, over which ranks its gradient is summed, whether this rank saves
 * it. Nothing here communicates or allocates. */
#include "comm/mesh.h"
#include "model/model_config.h"
#include "tensor/tensor_shard.h"

/* How tensor parallelism splits a tensor: not at all, not at all though each rank has the gradient of its
 * own heads alone, by rows (column-parallel maps: their outputs), by rows
 * that are whole key-value heads, of which ranks hold copies where there are more ranks than heads, by
 * columns (row-parallel maps: their inputs), or by rows of the vocabulary, which is padded to equal shards.
 * Experts are split by etp in this way, and besides by ep. */
typedef enum { TP_REPLICATED, TP_SHARED, TP_ROWS, TP_KV_HEADS, TP_COLUMNS, TP_VOCABULARY } TpSharding;
/* The ranks, besides the data-parallel ones, over which the gradient is summed at the end of a step: none;
 * tp, for replicated parameters whose gradient each rank has for its own tokens alone, under sequence
 * parallelism, or for its own heads; the ranks of tp that hold copies of a key-value head, each with the
 * gradient of its own queries. */
typedef enum { GRADIENT_COMPLETE, GRADIENT_OVER_TP, GRADIENT_OVER_KV } GradientSum;
/* Normal with standard deviation std; INIT_DEPTH: with std / sqrt(2 layers), as GPT-2 initialises the
 * maps that end a residual branch; INIT_EMBEDDING: with a deviation of its own; zeros; ones. */
typedef enum { INIT_NORMAL, INIT_DEPTH, INIT_EMBEDDING, INIT_ZERO, INIT_ONE } Init;
typedef enum { PARAMS_DENSE, PARAMS_EXPERTS, PARAM_FAMILIES } ParamFamily;

/* PARAM_EMBED_TOKEN_WEIGHT ..., in the order of model/params.def. Code asks for a parameter by this number,
 * never by name. */
typedef enum {
#define PARAM(id, ...) PARAM_##id,
#include "model/params.def"
#undef PARAM
    PARAM_IDS
} ParamId;

/* PARAM_ALIGN: matrices begin at multiples of so many elements of their block, that is of 256 bytes in a type
 * of 16 bits, the alignment of an arena. */
enum { PARAM_DIMS = 3, PARAM_ALIGN = 128 };

typedef struct {
    ParamId id;
    char    name[64];                 /* in checkpoints, dry runs and messages */
    int     dims;                     /* 1 to 3; the others are 1 */
    int64_t global[PARAM_DIMS];       /* rows and columns of the logical tensor; experts, rows, columns */
    int64_t local[PARAM_DIMS];        /* stored on this rank: split, the vocabulary padded */
    /* the part of the logical tensor stored here; box < local where there is padding */
    int64_t offset[PARAM_DIMS], box[PARAM_DIMS];
    Axis    split[PARAM_DIMS];        /* the axis of the mesh that splits the dimension; 0: none */
    /* the number of different parts of the tensor over the ranks that split it, and which of them is here */
    int     parts, part;
    GradientSum sum;
    /* of the ranks with the same part, besides the data-parallel ones, this one saves it and counts it in
     * norms */
    bool    saves;
    int64_t at;                       /* first element in the block */
    Init    init;
    double  std;                      /* of random initial values */
    bool    uniform;                  /* these are uniform, else normal */
    bool    decay;                    /* weight decay applies */
    bool    bias;                     /* a vector that begins as 0 and is no gain of a norm */
    int64_t head_rows;                /* of weights whose rows are query or key heads those of one; else 0 */
} Param;

enum {
    PARAM_ABSENT = -1,                /* this model has no such parameter */
    PARAM_ELSEWHERE = -2         /* another kind of block stores it: asking this one is a programming error */
};

typedef struct {
    ParamFamily family;
    int64_t index;                    /* 0: token embedding; 1 + unit */
    int     params;                   /* entries of param in use */
    /* one entry for each row of params.def, so no block can have more than fit */
    Param   param[PARAM_IDS];
    int8_t  index_of[PARAM_IDS];      /* index in param, or PARAM_ABSENT, or PARAM_ELSEWHERE */
    /* elements stored, those between parameters included: a multiple of PARAM_ALIGN */
    int64_t count;
} ParamBlock;

/* The ranks that split parameters, and the place of this one among them. Zero: one rank. */
typedef struct { MeshSize size, at; bool sequence_parallel; } ParamRanks;

int64_t params_blocks(const ModelConfig *config);       /* of a family: units + 1 */
/* Block `index` of a family as one of the ranks stores it; ranks NULL: one rank. block->params is 0 where
 * the unit has no such block. The sizes divide all dimensions that they split, or heads and tp divide one
 * another: options check it. */
void    params_block (ParamBlock *block, const ModelConfig *config, ParamFamily family, int64_t index,
                      const ParamRanks *ranks);
int64_t param_elements(const Param *param);             /* of the part stored here, padding included */
int64_t param_logical_elements(const Param *param);
/* A matrix of a transformer layer, or one for each of its experts: no embedding, head or vector. */
bool    param_is_layer_matrix(const Param *param);
/* The token embedding or the output layer, whose rows are those of the vocabulary. */
bool    param_of_vocabulary(const Param *param);

/* The smallest range of a parameter's elements that an optimizer can update alone, in elements of the part
 * stored here, counted from its first. */
typedef struct {
    int64_t   (*elements)(const void *context, const Param *param);           /* NULL: 1 of all parameters */
    const void *context;
} ParamGranule;

/* The part of entry p of the block within its elements [first, first + count). .count is 0 where they have
 * none of it; .local is left to the caller. */
TensorShard params_tensor_shard(const ParamBlock *block, int p, int64_t first, int64_t count);

/* Initialises flat [n], the elements [first, first + n) of the block. A value depends on (seed, name, index
 * in the logical tensor) alone, so every layout gets the same weights. Padding is 0. */
void    params_init(Queue *q, const ParamBlock *block, Tensor flat, int64_t first, uint64_t seed);
#endif
