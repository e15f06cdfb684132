/* jotun config: prints the value that each option of train would have, with its source or as YAML, and then
 * checks how the values fit together. */
#include "base/log.h"
#include <stdlib.h>
#include "cli/command.h"
#include "cli/setup/setup.h"
#include "conf/config_file.h"

/* Another program's file as YAML. What depends on the ranks is not checked, because the file does not say on
 * how many its values are used. */
static Status write_other_trainers(Options *o)
{
    OptionWords words   = { 0 };
    char       *remarks = NULL;
    Status      taken   = OK, status = compat_file(&words, &remarks, &taken, o);
    Failure     failure = { 0 };
    failure_keep(&failure, taken);
    if (status == OK) status = options_take(o, &words, NULL);
    if (status == OK) status = options_derive(o);
    if (status == OK) fputs(remarks, stdout);
    if (status == OK) status = options_yaml(stdout, o);
    fflush(stdout);
    if (status == OK && taken != OK) status = failure_report(&failure);
    if (status == OK) status = options_validate_file(o);
    if (status == OK) status = setup_groups(o);
    words_close(&words);
    free(remarks);
    return status;
}

/* The values are printed before they are checked, so that a reader sees the values that a message is
 * about. */
Status cmd_config(Options *o)
{
    if (o->record) return compat_recorders(stdout, o->record);
    if (o->from_script.count || o->from_yaml) return write_other_trainers(o);
    TRY(setup_values(o));
    if (o->yaml) TRY(options_yaml(stdout, o));
    else         options_show(stdout, o);
    fflush(stdout);                         /* messages go to standard error, and must follow the values */
    TRY(setup_validate(o));
    TRY(setup_groups(o));
    if (o->changed) log_line("would resume with other options than the checkpoint's: %s", o->changed);
    return OK;
}
