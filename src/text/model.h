#ifndef TEXT_MODEL_H
#define TEXT_MODEL_H
/* A byte-pair tokenizer as its files describe it: what the readers fill, and model_tokenizer makes a Tokenizer of.
 *
 *     text -- added tokens -- normal -- added tokens -- spaced -- cut -- pieces -- symbols -- merges -- ids                      */
#include <stdatomic.h>
#include <stdlib.h>
#include "text/added.h"
#include "text/bpe.h"
#include "text/cut.h"
#include "text/normal.h"
#include "text/tokenizer.h"
#include "text/vocab.h"
#include "text/words.h"

enum { MODEL_THREADS = 64 };

typedef struct {
    char     name[1024];
    Vocab    vocab;
    Merges   merges;
    Added    added;
    Normal   normal, spaced;              /* spaced: what is done to each part of a text before it is cut */
    Cut      cut;
    uint8_t *special;                     /* an id that is no text, one byte each; NULL: none */
    int32_t  vocabulary, eod, unknown;    /* VOCAB_NONE: none */
    bool     byte_level;                  /* symbols are bytes; else characters, and bytes where byte_fallback */
    bool     byte_fallback, fuse_unknown;
    bool     whole;                       /* a piece that is a token is not merged */
    bool     leads;                       /* a blank is put before the text */
    /* made by model_tokenizer */
    int32_t  byte_id[256];
    uint8_t  lead[256];                   /* a byte that may stand before a word's letters */
    Vocab    said;                        /* what an id decodes to */
    _Atomic(Words *) words[MODEL_THREADS];/* those that nobody encodes with now */
} Model;

/* Pieces encoded so far while nobody encodes, and those of them that had to be merged */
void model_pieces(const Tokenizer *t, int64_t *pieces, int64_t *misses);
/* A Tokenizer's encode */
int64_t model_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
Status model_open (Model **model, const char *name);
void   model_close(Model *model);
/* The model belongs to the tokenizer from here on, also where it fails. BAD_FILE where it could not spell every text */
Status model_tokenizer(Tokenizer *t, Model *model);

/* Readers. Paths of files; the messages name them. */
Status model_read_tiktoken(Model *model, const char *path);
Status model_read_gpt2    (Model *model, const char *vocab_path, const char *merges_path);
Status model_read_json    (Model *model, const char *path);
/* Looked for in texts before they are cut; where no token has its id it becomes one. Copies token.text. */
Status model_add_token(Model *model, AddedToken token);
/* tokenizer_config.json beside a tokenizer.json: its eos_token ends a document */
Status model_read_config  (Model *model, const char *path);
/* Of two neighbours as files write them: "left right" are tokens, and so is what they make */
Status model_add_merge(Model *model, const uint8_t *left, int64_t left_bytes, const uint8_t *right,
                       int64_t right_bytes, uint32_t rank);
#endif
