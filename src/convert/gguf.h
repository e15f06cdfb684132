#ifndef CONVERT_GGUF_H
#define CONVERT_GGUF_H
/* Writing a GGUF file (version 3), which llama.cpp opens: keys of the architecture, the tokenizer, the
 * tensors. Vectors, routers and learned positions are F32; other matrices get the chosen type. */
#include <jansson.h>
#include "convert/convert_run.h"
#include "convert/family.h"

typedef enum { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8, GGUF_BF16 = 30 } GgufType;
typedef struct {
    Family        family;
    const json_t *options;                 /* of the model */
    GgufType      type;
    const char   *tokenizer;               /* argument of --tokenizer */
    const char   *name;                    /* of the model, for people */
} GgufTexts;

/* BAD_OPTION, with the reason: llama.cpp has no such model here. */
Status gguf_naming(Naming *naming, const GgufTexts *texts);
/* Writes the file c->output. The plan is TO_THEIRS by the naming. */
Status gguf_write(ConvertRun *c, const GgufTexts *texts);

/* Bytes of keys and values that grow; the caller frees data. */
typedef struct { char *data; size_t used, capacity; int64_t keys; Status status; } GgufText;
typedef enum { GGUF_UINT32 = 4, GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8,
               GGUF_ARRAY = 9 } GgufKind;
void   gguf_put       (GgufText *out, const void *data, size_t bytes);
void   gguf_put_number(GgufText *out, uint64_t value, int bytes);              /* little-endian */
void   gguf_put_string(GgufText *out, const char *text, size_t bytes);         /* its length and its bytes */
void   gguf_key       (GgufText *out, const char *key, GgufKind kind);         /* its value follows */
void   gguf_key_string(GgufText *out, const char *key, const char *text);
void   gguf_key_uint  (GgufText *out, const char *key, int64_t value);
void   gguf_key_real  (GgufText *out, const char *key, double value);
/* The keys of the tokenizer, padded to `vocabulary` tokens. BAD_OPTION: llama.cpp has no such tokenizer. */
Status gguf_tokenizer (GgufText *out, const char *tokenizer, int64_t vocabulary);
#endif
