#ifndef CONVERT_TORCH_TYPE_H
#define CONVERT_TORCH_TYPE_H
/* The element types that PyTorch's files name, and which of them the tensors of a model may have. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensor/dtype.h"

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
/* By "FloatStorage" or by "float32"; TORCH_NO_TYPE: there is none. */
TorchType   torch_type_of_storage(const char *name, size_t bytes);
TorchType   torch_type_named     (const char *name, size_t bytes);
#endif
