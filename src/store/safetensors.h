#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H
/* safetensors: u64 little-endian header length, JSON header { name: { dtype, shape, data_offsets } },
 * data. Hostile files are refused with a reason: header at most 16 MiB, no duplicate names, spans that
 * cover the data exactly, no overflow. Opening takes at most 40 times the header's bytes of memory, and time n log n in its
 * tensors; the data is mapped, not read. */
#include "base/file.h"
#include "tensor/tensor.h"

typedef struct {
    char    name[96];
    Dtype   dtype;
    int     dims;
    int64_t dim[4];
    size_t  at, bytes;                     /* at: from the start of the file */
} SafeTensor;
typedef struct { FileMap map; int tensors; SafeTensor *tensor; } SafeFile;

Status safetensors_open (SafeFile *file, const char *path);            /* on failure *file is all zeros */
void   safetensors_close(SafeFile *file);
const SafeTensor *safetensors_find(const SafeFile *file, const char *name);
/* The header of a file to be written: fills each tensor's at and bytes, gives the header's bytes (malloc;
 * caller frees) and the file's size. */
Status safetensors_header(SafeTensor *tensor, int tensors, char **header, size_t *header_bytes,
                          size_t *file_bytes);
#endif
