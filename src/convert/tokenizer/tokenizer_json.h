#ifndef CONVERT_TOKENIZER_TOKENIZER_JSON_H
#define CONVERT_TOKENIZER_TOKENIZER_JSON_H
/* Tokenizers of files that transformers does not open, as the tokenizer.json of the same tokenizer: text that
 * has no special tokens in it gets the same ids. A tree takes memory as jansson does, some 200 bytes for each
 * token and merge. */
#include <jansson.h>
#include "base/status.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer.h"

/* A .tiktoken file: its tokens, merges that follow from their ranks, the pattern and the special tokens of
 * its family. A new reference. */
Status tiktoken_json(json_t **root, const char *path);
/* A sentencepiece model, BPE or unigram, with its normalizer. BAD_OPTION, naming the rule: it has one that a
 * tokenizer.json cannot say. A new reference. */
Status sentencepiece_json(json_t **root, const char *path);
/* That rule; NULL: there is none. */
const char *sentencepiece_json_other(const SentencePieceModel *model);
/* The word bytes. A new reference. */
json_t *bytes_json(const Tokenizer *t);

/* The rule of the model that transformers' LlamaTokenizer and llama.cpp's "llama" do not know, which read the
 * pieces and have the rules of Llama's own model, so that they would give other ids; NULL: there is none. */
const char *llama_pieces_other(const SentencePieceModel *model);
/* The id of the piece for what is no other; -1: there is none. */
int64_t pieces_unknown(const SentencePieceModel *model);
/* The merge of that rank in letters of bytes, with a blank between: how many; 0: there is none. */
enum { MERGE_LETTERS = 4 * 1024 + 2 };         /* a token of at most 1024 bytes has twice as many letters */
size_t merge_letters(char out[MERGE_LETTERS], const BpeTokenizer *m, int32_t rank);
#endif
