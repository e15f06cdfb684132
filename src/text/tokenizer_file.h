#ifndef TEXT_TOKENIZER_FILE_H
#define TEXT_TOKENIZER_FILE_H
/* Which file the argument of --tokenizer means. Whoever opens, copies or describes a tokenizer asks here, so
 * that all mean the same one. */
#include <stdbool.h>
#include "base/status.h"

typedef enum {
    TOKENIZER_FILE_BYTES,               /* the word bytes: no file */
    TOKENIZER_FILE_JSON,                /* tokenizer.json */
    TOKENIZER_FILE_PAIR,                /* a vocabulary and its merges: encoder.json and vocab.bpe, or
                                         * vocab.json and merges.txt, whose names may begin with NAME- */
    TOKENIZER_FILE_TIKTOKEN,            /* .tiktoken, or Llama 3's tokenizer.model, which is one */
    TOKENIZER_FILE_SENTENCEPIECE        /* .model */
} TokenizerFileKind;

/* path: the file; of a pair the vocabulary. folder: the argument where it is a directory, whose other files
 * (tokenizer_config.json, ...) belong to the tokenizer; "": the argument is a file, which is taken alone. */
typedef struct { TokenizerFileKind kind; char path[1024], merges[1024], folder[1024]; } TokenizerFile;

/* BAD_OPTION: there is no such file, or it is none of these kinds. In a directory a tokenizer.json comes
 * first, then a pair, then tokenizer.model. */
Status tokenizer_file_find(TokenizerFile *file, const char *name);
/* Writes "folder/name" where the tokenizer has a folder and that file exists in it; otherwise "" and
 * false. */
bool   tokenizer_file_beside(char path[1024], const TokenizerFile *file, const char *name);

/* The files that a copy of the tokenizer needs, the main one first: also those which only conversion reads
 * (chat template, ...). name: to be given to the copy, so that a folder of the copies is found as the
 * original was; of a file that is taken alone its own name, or "tokenizer" with its ending where that has
 * bytes other than letters, digits and ._- or is longer than 63. */
enum { TOKENIZER_PARTS = 12 };
typedef struct { char path[1024], name[64]; } TokenizerPart;
int    tokenizer_file_parts(TokenizerPart part[TOKENIZER_PARTS], const TokenizerFile *file);
#endif
