#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H
/* safetensors files: an unsigned 64-bit little-endian header length, a JSON header { name: { dtype, shape,
 * data_offsets } } and the data (https://huggingface.co/docs/safetensors). Hostile files are refused with
 * a reason: the header may have at most 16 MiB, names are unique, the tensors cover the data exactly, and
 * no product overflows. Opening takes at most 40 times the header's bytes of memory and O(n log n) time in
 * the tensors; the data is mapped, not read. */
#include "base/file.h"
#include "store/checkpoint_contents.h"

typedef struct {
    char    name[96];
    Dtype   dtype;
    int     dims;
    int64_t dim[4];
    size_t  at, bytes;                     /* of the data; `at` counts from the start of the file */
} SafeTensor;
typedef struct { FileMap map; int tensors; SafeTensor *tensor; } SafeFile;     /* tensor: by offset; owned */

Status safetensors_open (SafeFile *file, const char *path);            /* on failure *file is all zeros */
void   safetensors_close(SafeFile *file);
/* NULL: there is none; linear search. */
const SafeTensor *safetensors_find(const SafeFile *file, const char *name);
LogicalTensor safetensors_logical (const SafeTensor *tensor);          /* without its offset in the file */
/* Plans a file: fills each tensor's `at` and `bytes`, and returns the header's bytes (malloc; the caller
 * frees) and the size of the whole file. BAD_SHAPE if two tensors have one name or a size overflows. */
Status safetensors_header(SafeTensor *tensor, int tensors, char **header, size_t *header_bytes,
                          size_t *file_bytes);
#endif
