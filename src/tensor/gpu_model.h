#ifndef TENSOR_GPU_MODEL_H
#define TENSOR_GPU_MODEL_H
/* What is known of kinds of GPUs: a table of those in use. */
#include "tensor/dtype.h"

typedef struct GpuModel {
    const char *name, *reported;
    double      bytes;                     /* of memory */
    double      fp16, bf16, fp32;          /* FLOP/s; 0: no such products */
    double      capability;                /* NVIDIA's compute capability; 0: of AMD */
} GpuModel;

/* The kind of a GPU by the name that the runtime reports, "NVIDIA H100 80GB HBM3"; NULL: not in the table. */
const GpuModel *gpu_model_reported(const char *reported);
/* By its name in the table, upper and lower case alike; NULL: there is none. */
const GpuModel *gpu_model_named(const char *name);
/* "V100-PCIE-16GB, ..., MI300X": all names; returns out. */
const char *gpu_model_names(char *out, size_t size);
/* FLOP/s of products whose inputs have this type: F16, BF16 or F32; 0: not known. */
double gpu_model_peak(const GpuModel *model, Dtype type);
#endif
