#ifndef STORE_TENSOR_ENTRY_H
#define STORE_TENSOR_ENTRY_H
/* The JSON that a safetensors header and the manifest share: a tensor's name, "dtype" and "shape". Also
 * the parser for JSON from untrusted files, which bounds memory before it parses. */
#include <jansson.h>
#include "base/status.h"
#include "store/checkpoint_contents.h"

/* The most tensors in one file or manifest; it bounds what a hostile header can make the reader allocate. */
enum { TENSOR_LIMIT = 1 << 20 };

/* BAD_FILE with the path, the name and the reason: a name that is too long or not printable, an unknown
 * dtype, a shape whose bytes overflow. */
Status  tensor_entry_read (LogicalTensor *tensor, const char *path, const char *name, const json_t *dtype,
                           const json_t *shape);
json_t *tensor_entry_shape(const LogicalTensor *tensor);                      /* [4, 8]; a new reference */
int64_t tensor_entry_count(const LogicalTensor *tensor);                      /* elements */
bool    tensor_entry_equal(const LogicalTensor *a, const LogicalTensor *b);   /* name, dtype and shape */
const char *tensor_entry_text(char out[128], const LogicalTensor *tensor);    /* "F32 [4, 8]" */

/* Parses the JSON of an untrusted file; `what` names it in messages, "" or "header, "; flags: jansson's,
 * usually JSON_REJECT_DUPLICATES. BAD_FILE before parsing for a text whose tree would take more than
 * `multiple` times its bytes plus 1 MiB. */
Status json_parse_bounded(json_t **root, const char *path, const char *what, const char *text, size_t bytes,
                          size_t multiple, size_t flags);
/* The same with a whole file. BAD_FILE: it has more than `most` bytes. *root is NULL on failure. */
Status json_file_bounded (json_t **root, const char *path, size_t most, size_t multiple, size_t flags);
/* "line 1, byte 17: duplicate object key", without the file's own bytes, which may be terminal control
 * codes. */
const char *json_error_text(char out[160], const json_error_t *error);
#endif
