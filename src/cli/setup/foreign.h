#ifndef CLI_SETUP_FOREIGN_H
#define CLI_SETUP_FOREIGN_H
/* The options that a checkpoint describes its model by, as the options of a run that has this model. */
#include "cli/setup/setup.h"
#include "convert/format.h"
#include "convert/gguf/gguf.h"

/* json: {"num-layers": 12, ...}, path: its file, for messages. Derived and validated; options_close frees
 * them, after a failure as well. */
Status setup_model_options(Options *o, const char *json, const char *path);
/* Values that say the same in several ways become the one that module convert writes: layers are a list
 * [1,0,1], and how many scores rank a group of experts is a number. */
Status setup_model_canonical(Options *o);

/* The first architecture of llama.cpp that says all options of the model. BAD_OPTION, naming the nearest one
 * and an option in which it differs: there is none. */
Status setup_gguf(GgufArchitecture *a, const Options *model, const json_t *options, const char *path);
#endif
