/* The table of PyTorch's element types. */
#include "convert/torch/torch_type.h"
#include <string.h>

static const struct { const char *storage, *name; size_t width; int dtype; } types[TORCH_TYPES] = {
    [TORCH_NO_TYPE] = { "-", "", 1, -1 },
#define TORCH_TYPE(id, storage, name, width, dtype) [TORCH_##id] = { storage, name, width, dtype },
#include "convert/torch/torch_type.def"
};

size_t      torch_type_width(TorchType type) { return types[type].width; }
const char *torch_type_name (TorchType type) { return types[type].name; }

bool torch_type_dtype(TorchType type, Dtype *dtype)
{
    if (types[type].dtype < 0) return false;
    *dtype = (Dtype)types[type].dtype;
    return true;
}

static bool same(const char *word, const char *text, size_t bytes)
{
    return strlen(word) == bytes && memcmp(word, text, bytes) == 0;
}

/* "-" means that there is no name. */
TorchType torch_type_of_storage(const char *name, size_t bytes)
{
    for (int i = 1; i < TORCH_TYPES; i++)
        if (same(types[i].storage, name, bytes) && bytes > 1) return (TorchType)i;
    return TORCH_NO_TYPE;
}

TorchType torch_type_named(const char *name, size_t bytes)
{
    for (int i = 1; i < TORCH_TYPES; i++)
        if (same(types[i].name, name, bytes) && bytes > 1) return (TorchType)i;
    return TORCH_NO_TYPE;
}
