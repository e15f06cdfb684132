#ifndef STORE_TENSOR_ENTRY_H
#define STORE_TENSOR_ENTRY_H
/* What a safetensors header and our manifest say of one tensor, in the same words: its name, "dtype" and
 * "shape". */
#include <jansson.h>
#include "store/checkpoint.h"
#include "store/safetensors.h"

enum { TENSOR_LIMIT = 1 << 20 };  /* tensors in one file or manifest; a hostile header asks for more */

/* BAD_FILE with path, name and what is wrong: a name we cannot hold or print, a type we do not know, a
 * shape that overflows. */
Status  tensor_entry_read (LogicalTensor *tensor, const char *path, const char *name, const json_t *dtype,
                    const json_t *shape);
LogicalTensor tensor_entry_of(const SafeTensor *tensor);                 /* without its place in the file */
json_t *tensor_entry_shape(const LogicalTensor *tensor);                  /* [4, 8] */
int64_t tensor_entry_count(const LogicalTensor *tensor);
bool    tensor_entry_equal(const LogicalTensor *a, const LogicalTensor *b);
const char *tensor_entry_text(char out[128], const LogicalTensor *tensor);   /* "F32 [4, 8]" */

/* The JSON of a file from outside; `what` names it in messages, "" or "header, ". Duplicate keys are refused, and a text whose
 * tree would take above `multiple` times its bytes and 1 MiB, before it is parsed. */
Status json_within(json_t **root, const char *path, const char *what, const char *text, size_t bytes, size_t multiple);
/* "line 1, byte 17: duplicate object key", without the file's own bytes, which may be terminal codes. */
const char *json_problem(char out[160], const json_error_t *error);
#endif
