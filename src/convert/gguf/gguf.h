#ifndef CONVERT_GGUF_GGUF_H
#define CONVERT_GGUF_GGUF_H
/* Writing a GGUF file (version 3), which llama.cpp opens: keys of the architecture, the tokenizer, the
 * tensors. Vectors, routers and learned positions are F32; other matrices get the chosen type. */
#include <jansson.h>
#include "convert/convert_run.h"
#include "convert/gguf/gguf_architecture.h"

typedef enum { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8, GGUF_BF16 = 30 } GgufType;
typedef struct {
    GgufArchitecture   architecture;
    const json_t      *options;            /* of the model */
    const ModelConfig *config;             /* what they mean */
    GgufType           type;
    const char        *tokenizer;          /* argument of --tokenizer; none: ids alone */
    const char        *name;               /* of the model, for people */
} GgufTexts;

/* Writes the file c->output. The plan is TO_THEIRS by the naming of the architecture. */
Status gguf_write(ConvertRun *c, const GgufTexts *texts);
/* The keys of the tokenizer, padded to `vocabulary` tokens. BAD_OPTION: llama.cpp has no such tokenizer. */
Status gguf_tokenizer(GgufText *out, const char *tokenizer, int64_t vocabulary);
#endif
