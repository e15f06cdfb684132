#ifndef TEXT_BPE_READ_INTERNAL_H
#define TEXT_BPE_READ_INTERNAL_H
/* What the readers of JSON share. */
#include <jansson.h>
#include "text/bpe/bpe_tokenizer.h"

Status json_read(json_t **json, const char *path);
Status bpe_add_vocab(BpeTokenizer *m, const json_t *tokens, const char *path);          /* {token: id} */
/* As a file writes it: in characters for bytes where the model is of bytes */
Status bpe_add_written_merge(BpeTokenizer *m, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                               uint32_t rank);
#endif
