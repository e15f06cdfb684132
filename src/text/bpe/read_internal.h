#ifndef TEXT_BPE_READ_INTERNAL_H
#define TEXT_BPE_READ_INTERNAL_H
/* Shared by the readers of tokenizer files: JSON with bounded memory, files of lines, and vocabularies and
 * merges as they are written in both. */
#include <jansson.h>
#include "text/bpe/bpe_tokenizer.h"

/* Reads a JSON file into a tree, which the caller frees. BAD_FILE where it is malformed, or where the tree
 * would take more than JSON_GROWTH times the size of the file and 64 KiB, or more than JSON_MEMORY_MAX bytes;
 * that is computed before anything is allocated. Where an integer exceeds 64 bits all numbers become reals.
 * Adds the size of the file to the limit of the model's ids (Vocab.file_bytes). */
enum { JSON_GROWTH = 40, JSON_MEMORY_MAX = 1 << 30 };
Status  json_read(json_t **json, BpeTokenizer *m, const char *path);
/* Calls `read` for each line that is not empty, without its line ending; a first line "#version..." is
 * skipped. rank counts these lines from 0. A failing line's message gets the file and line number in front.
 * Adds to the limit of ids as json_read does. */
typedef Status LineRead(BpeTokenizer *m, const char *line, int64_t bytes, uint32_t rank);
Status  lines_read(BpeTokenizer *m, const char *path, LineRead *read);
int64_t json_id(const json_t *value);                        /* INT64_MIN: it is not an integer */
/* tokens: {token: id} */
Status bpe_add_vocab(BpeTokenizer *m, const json_t *tokens, const char *path);
/* A merge of two tokens as a file writes them: in byte letters where the model is byte-level. */
Status bpe_add_encoded_merge(BpeTokenizer *m, const char *left, int64_t left_bytes, const char *right,
                             int64_t right_bytes, uint32_t rank);
/* Decodes base64 and returns the length; -1: not base64, or more than `capacity` bytes. */
int64_t base64_decode(uint8_t *out, int64_t capacity, const uint8_t *in, int64_t count);
#endif
