#ifndef CONVERT_GGUF_GGUF_TOKENS_H
#define CONVERT_GGUF_GGUF_TOKENS_H
/* The vocabularies of a GGUF file, by llama.cpp's names of its tokenizers: "gpt2" is a byte-level BPE,
 * "llama" a BPE of characters whose tokens have scores, "t5" a unigram model. Each function writes the keys
 * of one. */
#include "convert/gguf/gguf_text.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"

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
