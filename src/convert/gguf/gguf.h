#ifndef CONVERT_GGUF_GGUF_H
#define CONVERT_GGUF_GGUF_H
/* GGUF files (version 3), which llama.cpp opens: which of its architectures a model can be, by rows of
 * architectures.def; keys of the architecture, the tokenizer, the tensors. Vectors, routers and learned
 * positions are F32; other matrices get the chosen type. */
#include <jansson.h>
#include "convert/convert_run.h"

typedef enum {
#define ARCHITECTURE(id, ...) GGUF_IS_##id,
#include "convert/gguf/architectures.def"
    GGUF_ARCHITECTURES
} GgufArchitecture;
enum { GGUF_WHY = 240 };

const char *gguf_architecture_name  (GgufArchitecture a);
Naming      gguf_architecture_naming(GgufArchitecture a);
/* What of a model's options the architecture can say, a new reference. */
json_t     *gguf_architecture_said  (GgufArchitecture a, const json_t *options);
/* How many of the architecture's rules the model does not keep; `why`: the first of them. */
int         gguf_architecture_broken(GgufArchitecture a, const json_t *options, const ModelConfig *config,
                                     char why[GGUF_WHY]);

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
#endif
