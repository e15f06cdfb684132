/* What the files of fairseq's commands share: its arguments that are combined, values that follow from them,
 * and files that they name. */
#include "compat/fairseq/fairseq_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"

const FairseqHeld fairseq_held[FAIRSEQ_HELD] = {
#define HELD_FAIRSEQ_LINE(field, names, text, help, kind, low, high, commands) \
    { names, text, help, KIND_##kind, low, high, offsetof(Fairseq, field), commands },
#include "compat/dialects.def"
};

const char *fairseq_command(const Options *o)
{
    return o->command == FOR_EVAL ? "fairseq-eval-lm" : "fairseq-train";
}

/* ---- values ---- */

Status fairseq_give(Options *o, OptionIndex option, const char *from, const char *format, ...)
{
    char name[128], value[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    snprintf(name, sizeof name, "--%s", option_rows[option].name);
    return options_set(o, option, value, option_source(SOURCE_CONFIG_FILE, name, "", from));
}

Status fairseq_give_typed(Options *o, const Fairseq *f, OptionIndex option, int argument, const char *format,
                          ...)
{
    char value[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (!f->typed[argument]) return fairseq_give(o, option, "fairseq's default", "%s", value);
    return options_set(o, option, value,
                       option_source(SOURCE_COMMAND_LINE, f->typed[argument], value, ""));
}

/* ---- files ---- */

const char *fairseq_path(char out[1200], const Fairseq *f, const char *file)
{
    snprintf(out, 1200, "%.1000s/%.180s", f->data, file);
    return out;
}

/* A token file of the data must be there: DIR/NAME.idx. */
Status fairseq_subset(const Fairseq *f, const char *name, int argument)
{
    char path[1200], index[200], standard[64];
    snprintf(index, sizeof index, "%.150s.idx", name);
    if (file_exists(fairseq_path(path, f, index))) return OK;
    snprintf(standard, sizeof standard, "by default --%s", fairseq_held[argument].names);
    return fail(BAD_FILE, "%s: no such file; %s is %s. fairseq-preprocess writes train, valid and test, of "
                "--trainpref, --validpref and --testpref, into its --destdir", path,
                f->typed[argument] ? f->typed[argument] : standard, name);
}

bool fairseq_is_file(const char *path)
{
    size_t letters = strlen(path);
    return letters > 3 && !strcmp(path + letters - 3, ".pt");
}

bool fairseq_has_checkpoint(const char *load)
{
    char path[1300];
    if (!load || !strncmp(load, "fairseq:", strlen("fairseq:"))) return load;
    snprintf(path, sizeof path, "%s/latest", load);
    if (file_exists(path)) return true;
    snprintf(path, sizeof path, "%s/manifest.json", load);
    return file_exists(path);
}

bool fairseq_own(const char *path)
{
    char part[1200];
    const char *dot = strrchr(path, '.');
    snprintf(part, sizeof part, "%.*s-model_part-0.pt", (int)(dot ? dot - path : 0), path);
    return file_exists(path) || file_exists(part);
}
