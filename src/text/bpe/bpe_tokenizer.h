#ifndef TEXT_BPE_BPE_TOKENIZER_H
#define TEXT_BPE_BPE_TOKENIZER_H
/* A byte-pair tokenizer as its files describe it: what the readers fill, and bpe_tokenizer_make makes a Tokenizer of.
 *
 *     text -- added tokens -- normal -- added tokens -- spaced -- cut -- pieces -- symbols -- merges -- ids                      */
#include <stdatomic.h>
#include <stdlib.h>
#include "text/bpe/added_tokens.h"
#include "text/bpe/bpe.h"
#include "text/pretokenize/pretokenizer.h"
#include "text/pretokenize/normalizer.h"
#include "text/tokenizer.h"
#include "text/bpe/vocab.h"
#include "text/bpe/piece_cache.h"

enum { BPE_TOKENIZER_THREADS = 64 };

enum { TEMPLATE_IDS_MAX = 8 };
typedef struct { int32_t id[TEMPLATE_IDS_MAX]; int count; } TemplateIds;

typedef struct {
    char     name[1024];
    Vocab    vocab;
    Merges   merges;
    AddedTokens    added;
    Normalizer   normalizer, segment_normalizer;              /* spaced: what is done to each part of a text before it is cut */
    Pretokenizer      pretokenizer;
    uint8_t *special;                     /* one byte an id: 1 for an added token that is none of the model's vocabulary; NULL: none */
    TemplateIds before, after;            /* what the post_processor of a tokenizer.json puts around each text */
    int32_t  vocabulary, eod, unknown;    /* VOCAB_NONE: none */
    bool     byte_level;                  /* symbols are bytes; else characters, and bytes where byte_fallback */
    bool     byte_fallback, fuse_unknown;
    bool     ignore_merges;                       /* a piece that is a token is not merged */
    bool     leads;                       /* a mark, U+2581, is put before the text */
    bool     strip_first_space;                      /* a text is decoded without its first blank, whether it was written as a mark or not */
    /* made by bpe_tokenizer_make */
    int32_t  byte_id[256];
    uint8_t  lead[256];                   /* a byte that may stand before a word's letters */
    Vocab    decoded;                        /* what an id decodes to */
    _Atomic(PieceCache *) cache[BPE_TOKENIZER_THREADS];/* those that nobody encodes with now */
} BpeTokenizer;

/* The id of a token of the model's own vocabulary, to which what was added to it does not belong; or
 * VOCAB_NONE */
static inline int32_t bpe_model_find(const BpeTokenizer *m, const uint8_t *text, int64_t bytes)
{
    int32_t id = vocab_find(&m->vocab, text, bytes);
    return id >= 0 && m->special && m->special[id] ? VOCAB_NONE : id;
}
/* Pieces encoded so far while nobody encodes, and those of them that had to be merged */
void bpe_tokenizer_pieces(const Tokenizer *t, int64_t *pieces, int64_t *misses);
/* A Tokenizer's encode */
int64_t bpe_tokenizer_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
Status bpe_tokenizer_open (BpeTokenizer **bpe, const char *name);
void   bpe_tokenizer_close(BpeTokenizer *bpe);
/* The model belongs to the tokenizer from here on, also where it fails. BAD_FILE where it could not spell every text */
Status bpe_tokenizer_make(Tokenizer *t, BpeTokenizer *bpe);

/* Readers. Paths of files; the messages name them. A model takes at most 100 times the bytes of its files
 * and 64 MB: JSON's tree (text/bpe/read_internal.h), and some 60 bytes an id for bytes, slots and merges, since ids are
 * bounded by the files' size (text/bpe/vocab.h). */
Status bpe_read_tiktoken(BpeTokenizer *bpe, const char *path);
Status bpe_read_gpt2    (BpeTokenizer *bpe, const char *vocab_path, const char *merges_path);
Status bpe_read_json    (BpeTokenizer *bpe, const char *path);
/* Looked for in texts before they are cut; where no token has its id it becomes one. Copies token.text. */
Status bpe_add_token(BpeTokenizer *bpe, AddedToken token);
/* added_tokens.json beside a vocab.json: {token: id}. config_path: a tokenizer_config.json, whose
 * added_tokens_decoder says what a token may do; map_path: a special_tokens_map.json, which names special
 * ones; "" for either that is not there */
Status bpe_read_added(BpeTokenizer *bpe, const char *path, const char *vocab_path, const char *config_path, const char *map_path);
/* tokenizer_config.json: its eos_token ends a document */
Status bpe_read_config  (BpeTokenizer *bpe, const char *path);
/* Of two neighbours as files write them: "left right" are tokens, and so is what they make */
Status bpe_add_merge(BpeTokenizer *bpe, const uint8_t *left, int64_t left_bytes, const uint8_t *right,
                       int64_t right_bytes, uint32_t rank);
#endif
