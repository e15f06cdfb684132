#ifndef CONVERT_TOKENIZER_TOKENIZER_JSON_H
#define CONVERT_TOKENIZER_TOKENIZER_JSON_H
/* Tokenizers of files that transformers does not open, as the tokenizer.json of the same tokenizer: text that
 * has no special tokens in it gets the same ids. A tree takes memory as jansson does, some 200 bytes for each
 * token and merge. */
#include <jansson.h>
#include "base/status.h"
#include "text/sentencepiece/sentencepiece_model.h"

/* A .tiktoken file: its tokens, merges that follow from their ranks, the pattern and the special tokens of
 * its family. *end: the id that ends a document. A new reference. */
Status tiktoken_json(json_t **root, int64_t *end, const char *path);
/* A sentencepiece model, BPE or unigram, with its normalizer. *unknown: the id of unknown text, -1: none.
 * BAD_OPTION, naming the rule: it has one that a tokenizer.json cannot say. A new reference. */
Status sentencepiece_json(json_t **root, int64_t *unknown, const char *path);
/* That rule; NULL: there is none. */
const char *sentencepiece_json_other(const SentencePieceModel *model);

/* An added token that is special. */
json_t *tokenizer_json_special(int64_t id, const char *text, size_t bytes);
/* The whole file. Consumes the references. */
json_t *tokenizer_json_make(json_t *added, json_t *normalizer, json_t *pre_tokenizer, json_t *decoder,
                            json_t *model);
#endif
