#ifndef CONF_SAVED_H
#define CONF_SAVED_H
/* Options that a checkpoint keeps as JSON. Used by the files of this directory only. */
#include <jansson.h>
#include "conf/rows.h"

/* Sets an option to a value of the checkpoint at `path`: through the same text as a typed one, so that ranges
 * and words are checked in one place. BAD_FILE where it is no value of the option. */
Status options_set_saved(Options *o, OptionIndex option, const json_t *value, const char *path);
#endif
