/* Options from all sources: each is collected as words, translated where it has names of other programs, and
 * set. Of each option the strongest source counts, whatever the order; what follows from other values comes
 * after them. */
#include "cli/setup/setup.h"
#include "comm/transport.h"
#include "conf/config_file.h"

/* Sets what a step of compat has made. */
static Status take(Options *o, OptionWords *words, Status status)
{
    if (status == OK) status = options_take(o, words, NULL);
    words_close(words);
    return status;
}

/* The environment first, since arguments that are read together look at what it says. */
static Status take_arguments(Options *o, Compat *c, int argc, char **argv)
{
    OptionWords written = { 0 }, words = { 0 };
    words_environment(&written, o->command);
    words_command_line(&written, SOURCE_COMMAND_LINE, "", COMPAT_REST, compat_reads_together(c) ? 0 : argc,
                       argv);
    compat_words(&words, c, &written, o->command);
    words_close(&written);
    TRY(take(o, &words, OK));
    return compat_reads_together(c) ? take(o, &words, compat_arguments(&words, c, o, argc, argv)) : OK;
}

static Status take_file(Options *o, Compat *c, const char *path, ConfigTexts *texts)
{
    OptionWords written = { 0 }, words = { 0 };
    Status status = words_config_file(&written, path, texts);
    if (status == OK) {
        compat_words(&words, c, &written, o->command);
        status = options_take(o, &words, NULL);
    }
    if (status == OK) words_tell_left_out(&words, path, o->command);
    words_close(&words);
    words_close(&written);
    return status;
}

static Status take_all(Options *o, Compat *c, ConfigTexts texts, int argc, char **argv)
{
    OptionWords words = { 0 };
    TRY(take_arguments(o, c, argc, argv));
    for (int i = 0; i < o->config.count && !texts.none; i++) TRY(take_file(o, c, o->config.text[i], &texts));
    if (!texts.none) TRY(take(o, &words, compat_variables(&words, c, o)));
    TRY(options_take_preset(o));
    return take(o, &words, compat_settings(&words, c, o, &texts));
}

Status setup_parse_found(Options *o, CommandSet command, ConfigTexts texts, AgptRun *run, int argc,
                         char **argv)
{
    Compat c      = { .as = NULL };
    Status status = options_begin(o, command);
    if (run) c.run = *run;
    if (status == OK) status = compat_open(&c, command, transport_launcher_size(), &argc, &argv);
    if (status == OK) status = take_all(o, &c, texts, argc, argv);
    if (run) *run = c.run;
    compat_close(&c);
    if (status != OK) options_close(o);
    return status;
}

Status setup_parse(Options *o, CommandSet command, int argc, char **argv)
{
    return setup_parse_found(o, command, (ConfigTexts){ .none = false }, NULL, argc, argv);
}

bool setup_is_foreign(CommandSet command, int argc, char **argv)
{
    Compat c = { .as = NULL };
    return compat_open(&c, command, 0, &argc, &argv) == OK && compat_reads_together(&c);
}
