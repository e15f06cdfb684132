/* jotun agpt: jotun train by the variables of a script, on the hosts of a job and in the script's folders. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "cli/command.h"
#include "cli/setup/setup.h"
#include "comm/transport.h"
#include "compat/alcf/agpt.h"

/* Rank 0 looks at the options without a word, and makes what the run needs before it starts. What is wrong
 * with them cmd_train says, and no folder is made for it. */
static Status start(int count, char **words, int argc, char **argv)
{
    Options o;
    AgptRun run = { .known = false };
    log_mute(true);
    Status status = setup_parse_found(&o, FOR_TRAIN, (ConfigTexts){ .none = false }, &run, count, words);
    if (status == OK) status = setup_values(&o);
    if (status == OK) status = setup_validate(&o);
    log_mute(false);
    bool looks = o.dry_run || o.draw_schedule || o.schedule_svg;
    if (status == OK) agpt_tell(&o, &run.found.machine, transport_launcher());
    bool trains = status == OK && !looks;
    status      = OK;
    if (trains && !transport_launcher()) status = agpt_start_ranks(&o, &run.found.machine, argc, argv);
    if (trains && status == OK) status = agpt_open_folders(&o, run.name);
    options_close(&o);
    return status;
}

/* argv: the word that says whose command line it is, then that. */
Status cmd_agpt(int argc, char **argv)
{
    int    options = 0, count = 0;
    char   ranks[32];
    char **words  = calloc((size_t)argc + 3, sizeof *words);
    char **option = calloc((size_t)argc + 1, sizeof *option);
    CHECK(words && option, "no memory for %d words", argc);
    log_mute(transport_launcher_rank() != 0);
    Status status  = agpt_prepare(option, &options, argc - 1, argv + 1);
    words[count++] = argv[0];
    if (transport_launcher_size()) {
        snprintf(ranks, sizeof ranks, "--ranks=%d", transport_launcher_size());
        words[count++] = ranks;
    }
    for (int i = 0; i < options; i++) words[count++] = option[i];
    bool first = transport_launcher_rank() == 0;
    if (status == OK && first) status = start(count, words, options, option);
    if (status == OK) status = cmd_train(count, words);
    else status = setup_refused(status, argc, argv);
    free(option);
    free(words);
    return status;
}
