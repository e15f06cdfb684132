/* jotun config: the options of train as they would be, each with its source. */
#include "cli/command.h"
#include "cli/setup.h"

/* Shown first, then judged, so that the values a message is about can be seen. */
static Status config(Options *o)
{
    TRY(setup_values(o));
    options_show(stdout, o);
    fflush(stdout);                             /* before the messages, which go to standard error */
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
