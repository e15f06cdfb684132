/* The table of kinds of GPUs. */
#include "tensor/gpu_model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"

#define GIB  0x1p30
#define TERA 1e12

/* By the data sheets of their makers: what --gpu takes; a part of the name that the runtime gives, of which
 * the first that fits counts, so that longer names come first; memory; peaks in fp16, bf16, fp32; compute
 * capability. Peaks are those of the boost clock: a GPU that is held at less power runs slower. */
static const GpuModel models[] = {
    { "V100-PCIE-16GB", "V100-PCIE-16GB",  15.7 * GIB,    112 * TERA,      0 * TERA,    14 * TERA,  7.0 },
    { "V100-PCIE",      "V100-PCIE",       31.7 * GIB,    112 * TERA,      0 * TERA,    14 * TERA,  7.0 },
    { "V100-16GB",      "V100-SXM2-16GB",  15.7 * GIB,    125 * TERA,      0 * TERA,  15.7 * TERA,  7.0 },
    { "V100",           "V100-SXM",        31.7 * GIB,    125 * TERA,      0 * TERA,  15.7 * TERA,  7.0 },
    { "A100-40GB",      "A100-SXM4-40GB",  39.3 * GIB,    312 * TERA,    312 * TERA,  19.5 * TERA,  8.0 },
    { "A100-PCIE-40GB", "A100-PCIE-40GB",  39.3 * GIB,    312 * TERA,    312 * TERA,  19.5 * TERA,  8.0 },
    { "A100",           "A100",            79.1 * GIB,    312 * TERA,    312 * TERA,  19.5 * TERA,  8.0 },
    { "H100-PCIE",      "H100 PCIe",       79.1 * GIB,    756 * TERA,    756 * TERA,    51 * TERA,  9.0 },
    { "H100-NVL",       "H100 NVL",          93 * GIB,    835 * TERA,    835 * TERA,    60 * TERA,  9.0 },
    { "H100",           "H100",            79.1 * GIB,    989 * TERA,    989 * TERA,    67 * TERA,  9.0 },
    { "H200-NVL",       "H200 NVL",       139.7 * GIB,    835 * TERA,    835 * TERA,    60 * TERA,  9.0 },
    { "H200",           "H200",           139.7 * GIB,    989 * TERA,    989 * TERA,    67 * TERA,  9.0 },
    { "B200",           "B200",           178.3 * GIB,   2250 * TERA,   2250 * TERA,    75 * TERA, 10.0 },
    /* one of the two dies, which the runtime has as a GPU of its own */
    { "MI250X",         "MI250X",          63.9 * GIB,  191.5 * TERA,  191.5 * TERA,  47.9 * TERA,    0 },
    { "MI300X",         "MI300X",         191.6 * GIB, 1307.4 * TERA, 1307.4 * TERA, 163.4 * TERA,    0 },
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
