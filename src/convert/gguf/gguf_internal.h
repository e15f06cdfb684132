#ifndef CONVERT_GGUF_INTERNAL_H
#define CONVERT_GGUF_INTERNAL_H
/* What the files of a GGUF file's keys share. */
#include "base/buffer.h"
#include "convert/gguf/gguf.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"

/* ---- gguf.c: keys and values, which grow; no memory ends the job ---- */

typedef struct { Buffer text; int64_t keys; } GgufText;
typedef enum { GGUF_UINT8 = 0, GGUF_UINT32 = 4, GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_BOOL = 7,
               GGUF_STRING = 8, GGUF_ARRAY = 9 } GgufKind;
void gguf_put_number(GgufText *out, uint64_t value, int bytes);                /* little-endian */
void gguf_put_real  (GgufText *out, double value);                             /* as FLOAT32 */
void gguf_put_string(GgufText *out, const char *text, size_t bytes);           /* its length and its bytes */
void gguf_key       (GgufText *out, const char *key, GgufKind kind);           /* its value follows */
void gguf_key_array (GgufText *out, const char *key, GgufKind kind, int64_t count);    /* its items follow */
void gguf_key_string(GgufText *out, const char *key, const char *text);
void gguf_key_uint  (GgufText *out, const char *key, int64_t value);
void gguf_key_real  (GgufText *out, const char *key, double value);
void gguf_key_bool  (GgufText *out, const char *key, bool value);

/* ---- gguf_architecture.c ---- */

/* The keys of a model. */
void        gguf_architecture_keys  (GgufText *out, GgufArchitecture a, const json_t *options,
                                     const ModelConfig *config);
/* Whether the head has to be a tensor, even where it is that of the embedding. */
bool        gguf_architecture_head  (GgufArchitecture a);
/* Whether the frequencies of the model are divided by factors that a tensor holds. */
bool        gguf_architecture_factors(const ModelConfig *config);

/* ---- gguf_tokenizer.c: vocabularies by llama.cpp's names of its tokenizers: "gpt2" is a byte-level BPE,
 * "llama" a BPE of characters whose tokens have scores, "t5" a unigram model. Each function writes the keys
 * of one ---- */

/* All keys of the tokenizer, padded to `vocabulary` tokens. BAD_OPTION: llama.cpp has no such tokenizer. */
Status gguf_tokenizer(GgufText *out, const char *tokenizer, int64_t vocabulary);

/* The numbers are those of llama.cpp's enum llama_token_type, and of a sentencepiece model. */
typedef enum {
    GGUF_TOKEN_NORMAL = 1, GGUF_TOKEN_UNKNOWN, GGUF_TOKEN_CONTROL, GGUF_TOKEN_DEFINED, GGUF_TOKEN_UNUSED,
    GGUF_TOKEN_BYTE
} GgufTokenKind;
/* text is not owned; NULL: no token has this id */
typedef struct { const char *text; size_t bytes; float score; GgufTokenKind kind; } GgufToken;
/* count: ids of the model. space: what texts may be written into; both owned */
typedef struct { GgufToken *token; int64_t count; char *space; size_t used; } GgufTokens;

/* space: bytes. NO_MEMORY */
Status gguf_tokens_open (GgufTokens *tokens, int64_t count, size_t space);
void   gguf_tokens_close(GgufTokens *tokens);
/* tokens, token_type and, if asked for, scores; ids without a token become unused ones. */
void   gguf_tokens_put  (GgufText *out, const GgufTokens *tokens, bool scores);

/* BAD_OPTION, naming the rule: llama.cpp does not split or normalize a text as the tokenizer does. */
Status gguf_bpe_put          (GgufText *out, const BpeTokenizer *bpe, int64_t vocabulary);
Status gguf_llama_put        (GgufText *out, const BpeTokenizer *bpe, int64_t vocabulary);
Status gguf_sentencepiece_put(GgufText *out, const SentencePieceModel *model, const char *name,
                              int64_t vocabulary);
/* The kinds of added tokens: special ones are control tokens. [vocabulary] of `tokens` */
void   gguf_added_kinds(GgufTokens *tokens, const BpeTokenizer *bpe);
#endif
