/* jotun config: prints the value that each option of train would have, with its source or as YAML, and then
 * checks how the values fit together. */
#include "base/log.h"
#include "cli/command.h"
#include "cli/setup/setup.h"
#include "conf/config_file.h"
#include "compat/bash/launch_script.h"
#include "compat/import.h"

/* Another trainer's file as YAML. What depends on the ranks is not checked, because the file does not say on
 * how many its values are used. */
static Status write_other_trainers(Options *o)
{
    Import import;
    const char *path = o->from_nemo ? o->from_nemo : o->from_megatron.text[0];
    if (o->from_nemo && o->from_megatron.count)
        return fail(BAD_USAGE, "--from-megatron and --from-nemo are two files; give one of them");
    Status status = o->from_nemo ? import_nemo(&import, o) : import_megatron(&import, o);
    if (status == OK) status = options_derive(o);
    if (status == OK) {
        import_show(stdout, &import);
        status = options_yaml(stdout, o);
    }
    fflush(stdout);
    if (status == OK) status = import_ends(&import, path);
    if (status == OK) status = options_validate_file(o);
    import_close(&import);
    return status;
}

/* The values are printed before they are checked, so that a reader sees the values that a message is
 * about. */
static Status make_recorders(const char *folder)
{
    char command[9000];
    TRY(launch_offer(command, sizeof command, folder, NULL));
    printf("%s SCRIPT [ARGUMENT...]\njotun config --from-megatron %s > run.yaml\n", command, folder);
    return OK;
}

static Status config(Options *o)
{
    if (o->record) return make_recorders(o->record);
    if (o->from_megatron.count || o->from_nemo) return write_other_trainers(o);
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
