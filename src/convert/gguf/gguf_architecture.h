#ifndef CONVERT_GGUF_GGUF_ARCHITECTURE_H
#define CONVERT_GGUF_GGUF_ARCHITECTURE_H
/* The architectures of llama.cpp: which models each can be, and its keys, by rows of architectures.def. */
#include <jansson.h>
#include "convert/gguf/gguf_text.h"
#include "convert/links.h"

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
/* The keys of a model. */
void        gguf_architecture_keys  (GgufText *out, GgufArchitecture a, const json_t *options,
                                     const ModelConfig *config);
/* Whether the head has to be a tensor, even where it is that of the embedding. */
bool        gguf_architecture_head  (GgufArchitecture a);
/* Whether the frequencies of the model are divided by factors that a tensor holds. */
bool        gguf_architecture_factors(const ModelConfig *config);
#endif
