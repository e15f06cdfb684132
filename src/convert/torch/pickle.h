#ifndef CONVERT_TORCH_PICKLE_H
#define CONVERT_TORCH_PICKLE_H
/* Python's pickles, protocols 0 to 5, as PyTorch and Megatron-LM write them. A pickle is a program that
 * calls functions by name; this reader calls nothing. It knows the names of pickle_names.def and makes a
 * value of each such call: an OrderedDict becomes a dictionary, _rebuild_tensor_v2 a tensor. Objects of
 * Megatron-LM's and PyTorch's plain classes become records that hold what they were made of. Every other
 * name is refused with a message that says it.
 *
 * Texts and bytes point into the caller's memory, which must outlive the pickle. Memory is at most 150 times
 * the pickle's bytes and time is linear in them. There is no recursion; a value that contains itself, nests
 * deeper than PICKLE_DEPTH, or unfolds to more than 64 times the pickle's bytes (a "billion laughs") is
 * refused, so that a reader of values may recurse and follow every path. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"
#include "tensor/dtype.h"

enum { PICKLE_DEPTH = 200, PICKLE_TENSOR_DIMS = 8 };

/* The element types that PyTorch's files name, and which of them the tensors of a model may have. */
typedef enum {
    TORCH_NO_TYPE,
#define TORCH_TYPE(id, storage, name, width, dtype) TORCH_##id,
#include "convert/torch/torch_type.def"
    TORCH_TYPES
} TorchType;

size_t      torch_type_width(TorchType type);           /* bytes */
const char *torch_type_name (TorchType type);           /* "bfloat16"; "" for TORCH_NO_TYPE */
/* False where no type here has these bits. */
bool        torch_type_dtype(TorchType type, Dtype *dtype);

typedef enum {
    PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_FLOAT, PICKLE_TEXT, PICKLE_BYTES,
    PICKLE_BIG,          /* an integer beyond 64 bits: bytes, little-endian */
    PICKLE_LIST, PICKLE_TUPLE, PICKLE_SET, PICKLE_DICT,
    PICKLE_GLOBAL,       /* a class or function by name */
    PICKLE_RECORD,       /* an object of a class that is not interpreted */
    PICKLE_STORAGE,      /* the memory of tensors, kept outside the pickle */
    PICKLE_TENSOR
} PickleKind;

typedef struct PickleValue PickleValue;

/* data: filled by the reader of the file that holds the storage (torch_file.h); NULL before. */
typedef struct PickleStorage {
    struct PickleStorage *next;           /* in the order of the pickle */
    TorchType      type;
    const char    *key;                   /* the storage's name in the file */
    uint32_t       key_bytes;
    int64_t        count;                 /* elements of `type` */
    int64_t        first;                 /* elements of the file's storage before this view of it */
    const uint8_t *data;                  /* may be unaligned */
} PickleStorage;

typedef struct {
    const PickleStorage *storage;
    TorchType type;                       /* of an element; the storage's, or another over untyped bytes */
    int       dims;
    int64_t   offset;                     /* elements of `type` in the storage before the first */
    int64_t   size[PICKLE_TENSOR_DIMS], stride[PICKLE_TENSOR_DIMS];    /* stride in elements, not negative */
} PickleTensor;

/* An object: `name` is a PICKLE_GLOBAL; the others NULL where the pickle gives none. */
typedef struct {
    PickleValue *name, *arguments;        /* the class or function, and what it was called with (a tuple) */
    PickleValue *state;                   /* what the object was restored from, usually its dictionary */
    PickleValue *list, *dict;             /* elements, if its class is a kind of list or dictionary */
} PickleRecord;

struct PickleValue {
    PickleKind kind;
    uint16_t   height;                    /* levels below and with it */
    bool       open;                      /* while the pickle is checked: on the path to the value there */
    uint64_t   weight;                    /* values that it unfolds to; 0: not known yet */
    union {
        int64_t integer;                                                  /* BOOL, INT */
        double  real;                                                     /* FLOAT */
        struct { const char *text; size_t bytes; };                       /* TEXT, BYTES, BIG; no final NUL */
        /* LIST, TUPLE, SET: `items` values; DICT: keys and values in turn, twice as many. */
        struct { PickleValue **item; uint32_t items, room; };
        struct { const char *module, *name; uint32_t module_bytes, name_bytes; int meaning; };   /* GLOBAL */
        PickleRecord  *record;
        PickleStorage *storage;
        PickleTensor  *tensor;
    };
};

typedef struct {
    PickleValue         *root;
    PickleStorage       *storages;         /* all that the pickle names */
    struct PickleChunk  *memory;
    size_t               bytes;
} Pickle;

/* Reads the pickle at the start of data; p->bytes says how long it is, so that another may follow. `label`
 * names it in messages. BAD_FILE on damage and refusal, NO_MEMORY; then *p is all zeros. */
Status pickle_open (Pickle *p, const void *data, size_t size, const char *label);
void   pickle_close(Pickle *p);

/* ---- values; every function accepts NULL, as of a key that is missing ---- */

bool pickle_is_text(const PickleValue *v, const char *text);           /* also of BYTES */
/* Of a dictionary, or of a record's state, its first element if it is a tuple, or its own entries; NULL where
 * the key is missing. Linear. */
const PickleValue *pickle_get(const PickleValue *v, const char *key);
/* The value's text cut to a buffer, with a final NUL and control characters replaced; "" if it has none. */
const char *pickle_text(char *out, size_t bytes, const PickleValue *v);
bool pickle_integer(const PickleValue *v, int64_t *integer);           /* INT and BOOL; false: another kind */
bool pickle_real   (const PickleValue *v, double *real);               /* FLOAT, INT and BOOL */
/* Whether a record was made by this class or function: "torch.device". */
bool pickle_is_record(const PickleValue *v, const char *name);
#endif
