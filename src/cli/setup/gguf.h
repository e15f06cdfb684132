#ifndef CLI_SETUP_GGUF_H
#define CLI_SETUP_GGUF_H
/* The architecture of llama.cpp that a model is. */
#include "cli/setup/setup.h"
#include "convert/gguf/gguf.h"

/* The first architecture that says all options of the model. BAD_OPTION, naming the nearest one and an
 * option in which it differs: there is none. */
Status setup_gguf(GgufArchitecture *a, const Options *model, const json_t *options, const char *path);
#endif
