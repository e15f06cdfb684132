/* jotun config: prints the value that each option of train would have, with its source or as YAML, and then
 * checks how the values fit together. */
#include "base/log.h"
#include "cli/command.h"
#include "cli/setup/setup.h"
#include "conf/config_file.h"

/* The values are printed before they are checked, so that a reader sees the values that a message is
 * about. */
static Status config(Options *o)
{
    TRY(setup_values(o));
    if (o->yaml) TRY(options_yaml(stdout, o));
    else         options_show(stdout, o);
    fflush(stdout);                         /* messages go to standard error, and must follow the values */
    TRY(setup_validate(o));
    if (o->changed) log_line("would resume with other options than the checkpoint's: %s", o->changed);
    return OK;
}

Status cmd_config(int argc, char **argv)
{
    Options o;
    Status status = options_parse(&o, FOR_CONFIG_COMMAND, argc, argv);
    if (status == OK) status = config(&o);
    options_close(&o);
    return status;
}
