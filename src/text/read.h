#ifndef TEXT_READ_H
#define TEXT_READ_H
/* What the readers of JSON share. */
#include <jansson.h>
#include "text/model.h"

Status json_read(json_t **json, const char *path);
Status model_add_vocab(Model *m, const json_t *tokens, const char *path);          /* {token: id} */
/* As a file writes it: in characters for bytes where the model is of bytes */
Status model_add_written_merge(Model *m, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                               uint32_t rank);
#endif
