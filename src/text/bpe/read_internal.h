#ifndef TEXT_BPE_READ_INTERNAL_H
#define TEXT_BPE_READ_INTERNAL_H
/* What the readers of JSON share. */
#include <jansson.h>
#include "text/bpe/bpe_tokenizer.h"

/* The tree of a JSON file, which belongs to the caller. Whole numbers beyond 64 bits make all numbers
 * reals. BAD_FILE where it is broken, or where the tree would take more than JSON_GROWTH times the file's
 * bytes and 64 KiB, or more than JSON_MOST bytes: that is known before anything is allocated. Raises the
 * model's limit of ids by the file's bytes. */
enum { JSON_GROWTH = 40, JSON_MEMORY_MAX = 1 << 30 };
Status  json_read(json_t **json, BpeTokenizer *m, const char *path);
/* Each line of a file that is not empty, without its end, but for a first one that says "#version"; rank
 * counts them from 0. The message of one that fails is put behind the file and the line. Raises the limit
 * of ids as json_read does. */
typedef Status LineRead(BpeTokenizer *m, const char *line, int64_t bytes, uint32_t rank);
Status  lines_read(BpeTokenizer *m, const char *path, LineRead *read);
int64_t json_id(const json_t *value);                        /* INT64_MIN: no whole number */
Status bpe_add_vocab(BpeTokenizer *m, const json_t *tokens, const char *path);          /* {token: id} */
/* As a file writes it: in characters for bytes where the model is of bytes */
Status bpe_add_encoded_merge(BpeTokenizer *m, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                               uint32_t rank);
#endif
