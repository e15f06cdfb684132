/* Options of a checkpoint of another program. */
#include "cli/setup/foreign.h"

/* As jotun config sees them, which needs no data. */
Status setup_model_options(Options *o, const char *json, const char *path)
{
    Status status = options_parse(o, FOR_CONFIG, 0, NULL);
    if (status == OK) status = options_from_json(o, json, path, FOR_CHECKPOINT_ARGS);
    if (status == OK) status = options_derive(o);
    if (status == OK) status = options_validate(o);
    return status;
}
