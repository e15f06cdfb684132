#include "cli/command.h"
#include "cli/setup.h"

/* Shown first, then judged: a reader wants to see the values a message speaks of. */
static Status config(Options *o)
{
    TRY(setup_values(o));
    options_show(stdout, o);
    fflush(stdout);                             /* before the words about it */
    return setup_judge(o);
}

Status cmd_config(int argc, char **argv)
{
    Options o;
    Status status = options_parse(&o, FOR_CONFIG, argc, argv);
    if (status == OK) status = config(&o);
    options_close(&o);
    return status;
}
