/* The table of kinds of GPUs. */
#include "tensor/gpu_model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"

static const GpuModel models[] = {
#define GPU(name, reported, gib, fp16, bf16, fp32, capability) \
    { name, reported, (gib) * 0x1p30, (fp16) * 1e12, (bf16) * 1e12, (fp32) * 1e12, capability },
#include "tensor/gpu_models.def"
};

const GpuModel *gpu_model_reported(const char *reported)
{
    for (int i = 0; i < COUNT(models); i++)
        if (strstr(reported, models[i].reported)) return &models[i];
    return NULL;
}

const GpuModel *gpu_model_named(const char *name)
{
    for (int i = 0; i < COUNT(models); i++)
        if (strcasecmp(name, models[i].name) == 0) return &models[i];
    return NULL;
}

const char *gpu_model_names(char *out, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < COUNT(models) && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i > 0 ? ", " : "", models[i].name);
    return out;
}

double gpu_model_peak(const GpuModel *model, Dtype type)
{
    return type == F16 ? model->fp16 : type == BF16 ? model->bf16 : type == F32 ? model->fp32 : 0;
}
