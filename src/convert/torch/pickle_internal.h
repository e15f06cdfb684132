#ifndef CONVERT_TORCH_PICKLE_INTERNAL_H
#define CONVERT_TORCH_PICKLE_INTERNAL_H
/* What the files of the pickle reader share: the machine that reads opcodes (pickle_reader.c), what calls of
 * known names make (pickle_calls.c), memory and checks of the finished value (pickle_value.c). */
#include "base/reader.h"
#include "convert/torch/pickle.h"

typedef enum {
    MAKES_STORAGE = 1, MAKES_TYPE, MAKES_DICT, MAKES_LIST, MAKES_TUPLE, MAKES_SET, MAKES_BYTES, MAKES_RECORD,
    MAKES_RECONSTRUCTOR, MAKES_SCALAR, MAKES_ATTRIBUTE, MAKES_TENSOR, MAKES_TENSOR_TYPED, MAKES_PARAMETER,
    MAKES_FROM_TYPE
} PickleMeaning;

/* Memory of all values, which is taken piece after piece and freed together. */
struct PickleChunk { struct PickleChunk *before; size_t used, size; char data[]; };

typedef struct {
    ByteReader     in;
    struct PickleChunk **memory;           /* the last one */
    PickleStorage **storage;               /* where the next one is linked */
    size_t         spent;                  /* bytes and items copied by calls; at most twice those read */
    PickleValue  **stack, **memo;
    size_t         depth, stack_room, memo_room;
    size_t         memoized;               /* by MEMOIZE */
    size_t        *mark;                   /* depths of the stack at the marks */
    size_t         marks, mark_room;
} PickleReader;

/* Fails with the file, the position and a reason. */
Status pickle_refuse(const PickleReader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
Status pickle_new   (PickleValue **value, PickleReader *r, PickleKind kind);
Status pickle_block(void *block, PickleReader *r, size_t bytes); /* *block: zeros, freed with the rest */
Status pickle_add   (PickleValue *list, PickleReader *r, PickleValue *item);         /* to its `item` */
Status pickle_spend (PickleReader *r, size_t amount);
/* Depth, cycles and unfolded size of the whole value. */
Status pickle_check (const PickleReader *r, PickleValue *root);

Status pickle_global(PickleValue **value, PickleReader *r, const char *module, size_t module_bytes,
                     const char *name, size_t name_bytes);
/* What calling `function` with a tuple of arguments makes. */
Status pickle_call  (PickleValue **value, PickleReader *r, PickleValue *function, PickleValue *arguments);
Status pickle_persistent(PickleValue **value, PickleReader *r, const PickleValue *id);
#endif
