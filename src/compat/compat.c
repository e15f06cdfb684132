/* Which program a command line, a file or the environment is written for, and its words. */
#include "compat/compat.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "compat/bash/launch_script.h"
#include "compat/deepspeed/deepspeed.h"
#include "compat/fairseq/fairseq.h"
#include "compat/import.h"
#include "conf/value.h"

static const ForeignCommand foreign_commands[] = {
#define FOREIGN(name, takes, words, does, gives, kind, job) { name, gives, takes, READ_##kind },
#include "compat/commands.def"
};

const ForeignCommand *foreign_command(const char *name)
{
    for (size_t i = 0; i < COUNT(foreign_commands); i++)
        if (!strcmp(foreign_commands[i].name, name)) return &foreign_commands[i];
    return NULL;
}

Status compat_open(Compat *c, CommandSet command, int ranks, int *argc, char ***argv)
{
    const char *as = *argc && !strncmp(**argv, FOREIGN_WORD, strlen(FOREIGN_WORD)) ? **argv : NULL;
    c->ranks = ranks;
    if (!as) return OK;
    ++*argv, --*argc;
    c->as = foreign_command(as + strlen(FOREIGN_WORD));
    if (!c->as || !(c->as->takes & command))
        return fail(BAD_USAGE, "%s: no command of another program that is jotun %s", as,
                    command_name(command));
    c->variables = c->as->kind == READ_SCRIPT;
    return OK;
}

void compat_close(Compat *c)
{
    fairseq_close(c->fairseq);
    c->fairseq = NULL;
}

/* --agpt-variables, of jotun train */
static bool is_variables_switch(const OptionWord *w)
{
    return w->name && !strcmp(w->name, "agpt-variables");
}

/* What the program has without being asked, weaker than what was typed. */
static void add_given(OptionWords *out, const ForeignCommand *program)
{
    char words[256], *word[16], *rest;
    int  count = 0;
    snprintf(words, sizeof words, "%s", program->gives);
    for (char *w = strtok_r(words, " ", &rest); w && count < 16; w = strtok_r(NULL, " ", &rest))
        word[count++] = w;
    words_command_line(out, SOURCE_PRESET, program->name, "", count, word);
}

bool compat_reads_together(const Compat *c) { return c->as && c->as->kind == READ_TOGETHER; }

void compat_words(OptionWords *out, Compat *c, const OptionWords *words, CommandSet command)
{
    OptionWords rest = { 0 };
    unsigned    understood = dialects_understood(command);
    if (c->as && c->as->kind == READ_TOGETHER) understood = DIALECT_FAIRSEQ_LINE | DIALECT_JOTUN;
    if (c->as) add_given(out, c->as);
    for (int i = 0; i < words->count; i++)
        if (command & FOR_CONFIG && is_variables_switch(&words->word[i])) c->variables = true;
        else words_append(&rest, &words->word[i]);
    translate_words(out, &rest, command, understood);
    words_close(&rest);
}

Status compat_arguments(OptionWords *out, Compat *c, const Options *o, int argc, char **argv)
{
    return fairseq_words(&c->fairseq, out, o, argc, argv);
}

Status compat_variables(OptionWords *out, Compat *c, const Options *o)
{
    return c->variables ? agpt_words(out, &c->run, o) : OK;
}

Status compat_settings(OptionWords *out, Compat *c, const Options *o, ConfigTexts *texts)
{
    if (o->json_config && !texts->none) TRY(deepspeed_words(out, o, texts));
    return c->fairseq ? fairseq_derived(out, c->fairseq, o, c->ranks) : OK;
}

/* Variables, NAME=value, may stand before the script. */
static const char *script_of(const TextList *words)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    int               i         = 0;
    while (i + 1 < words->count && words->text[i][strspn(words->text[i], letters)] == '=') i++;
    return words->text[i];
}

Status compat_file(OptionWords *out, char **remarks, Status *status, const Options *o)
{
    Import      m;
    size_t      bytes;
    const char *path = o->from_yaml ? o->from_yaml : script_of(&o->from_script);
    *remarks = NULL;
    if (o->from_yaml && o->from_script.count)
        return fail(BAD_USAGE, "%s and %s are two files; give one of them",
                    o->source[OPTION_from_script].name, o->source[OPTION_from_yaml].name);
    import_open(&m, o);
    Status read = o->from_yaml ? import_nemo(&m, &m.copy) : import_megatron(&m, &m.copy);
    FILE  *text = open_memstream(remarks, &bytes);
    if (text) import_show(text, &m);
    if ((!text || fclose(text)) && read == OK)
        read = fail(NO_MEMORY, "no memory for the remarks on %s", path);
    if (read == OK) words_between(out, &m.copy, o);
    if (read == OK) *status = import_ends(&m, path);
    import_close(&m);
    return read;
}

Status compat_recorders(FILE *out, const char *folder)
{
    char command[9000];
    TRY(launch_offer(command, sizeof command, folder));
    fprintf(out, "%s SCRIPT [ARGUMENT...]\njotun config --from-megatron %s > run.yaml\n", command, folder);
    return OK;
}

/* A row of another word for a value, or of another name. */
static void take_saved(json_t *now, const char *name, const json_t *value)
{
    const char *word = json_string_value(value);
    const Dialect *row = dialect_find(DIALECT_JOTUN, name, word ? word : "");
    bool renamed = row && row->verb == VERB_SAME;
    if (row && *row->given) json_object_set_new(now, name, json_string(row->text));
    else if (row && !renamed) return;                          /* nothing follows from it any more */
    else json_object_set(now, renamed ? option_rows[row->option].name : name, (json_t *)(uintptr_t)value);
}

char *compat_saved(const char *json)
{
    json_t *saved = json_loads(json, 0, NULL), *now = json_object(), *value;
    const char *name;
    json_object_foreach(saved, name, value) take_saved(now, name, value);
    char *text = saved ? json_dumps(now, JSON_COMPACT | JSON_REAL_PRECISION(17)) : strdup(json);
    CHECK(text, "no memory for the options of a checkpoint");
    json_decref(saved);
    json_decref(now);
    return text;
}

/* ---- help ---- */

static const char *const unit_text[] = { "", ", x 60", ", 2 to the power of it", ", the folder of the file" };

/* The value of an option in help: its word, or the words of a choice. */
static const char *value_text(char *out, size_t size, OptionIndex option)
{
    if (option_rows[option].kind == KIND_CHOICE) return option_choices(out, size, option, "|", "|");
    snprintf(out, size, "%s", option_value(option));
    return out;
}

/* Arguments of fairseq: those that several rows make together, then those that are one option. What is
 * ignored or refused has its line in the log. */
static bool fairseq_help(ForeignArgument *out, CommandSet takes, int i)
{
    static _Thread_local char text[512], value[512];
    FairseqArgument a;
    for (int n = 0; n < fairseq_arguments(); n++) {
        if (!fairseq_argument(&a, n, takes) || i--) continue;
        snprintf(text, sizeof text, *a.fallback ? "%s [%s]" : "%s", a.help, a.fallback);
        *out = (ForeignArgument){ "--", a.name, a.value, text };
        return true;
    }
    for (int n = 0; n < dialect_count; n++) {
        const Dialect *row = &dialects[n];
        bool sequence = row->option == OPTION_sequence;              /* the window of an evaluation */
        if (row->whose != DIALECT_FAIRSEQ_LINE_INDEX || row->option < 0) continue;
        if ((!sequence && !option_taken((OptionIndex)row->option, takes)) || i--) continue;
        bool alias = row->verb == VERB_SAME || row->verb == VERB_WITH;
        bool flag  = option_rows[row->option].kind == KIND_FLAG;
        if (alias) value_text(value, sizeof value, (OptionIndex)row->option);
        else snprintf(value, sizeof value, "%s", row->given);
        for (char *c = value; !alias && *c; c++)
            if (*c == ' ') *c = '|';
        snprintf(text, sizeof text, "--%s%s%s", option_rows[row->option].name, alias || flag ? "" : " ",
                 alias || flag ? "" : row->text);
        *out = (ForeignArgument){ "--", row->name, value, text };
        return true;
    }
    return false;
}

bool foreign_argument(ForeignArgument *out, const ForeignCommand *program, int i)
{
    static _Thread_local AgptHelp help;
    static _Thread_local char text[1024];
    if (program->kind == READ_TOGETHER) return fairseq_help(out, program->takes, i);
    if (program->kind != READ_SCRIPT || !agpt_help(&help, i)) return false;
    snprintf(text, sizeof text, *help.fallback ? "%s [%s]" : "%s", help.what, help.fallback);
    *out = (ForeignArgument){ "", help.names, "", text };
    return true;
}

const char *foreign_heading(const ForeignCommand *program)
{
    static const char *const headings[] = {
        [READ_WORDS]   = NULL,
        [READ_TOGETHER] = "arguments of fairseq; its others are ignored or refused, with a line that says "
                            "why",
        [READ_SCRIPT]  = "variables, of the environment or as words NAME=VALUE",
    };
    return headings[program->kind];
}

const char *foreign_options_heading(const ForeignCommand *program)
{
    static _Thread_local char text[128];
    snprintf(text, sizeof text, program->kind == READ_SCRIPT
             ? "options of jotun %s, which count instead of variables"
             : "options of jotun %s may stand beside them", command_name(program->takes));
    return text;
}

/* Which option replaces an option of another program, or why there is none. */
static void write_row(FILE *out, const Dialect *row)
{
    const char *ours = row->option >= 0 ? option_rows[row->option].name : "";
    const char *given = row->given;
    char value[128];
    bool variable = !*dialect_names[row->whose].prefix;
    bool key      = row->whose == DIALECT_NEMO_INDEX || row->whose == DIALECT_DSJSON_INDEX;
    const char *between = !*row->given ? "" : variable ? "=" : key ? ": " : " ";
    const char *dashes = variable || key ? "" : "--";
    fprintf(out, "| `%s", dashes);
    for (const char *c = row->name; *c; c++)                             /* a row may have several names */
        if (*c == ' ') fprintf(out, "`, `%s", dashes);
        else           fputc(*c, out);
    for (const char *before = between; name_next(value, sizeof value, &given); before = "` or `")
        fprintf(out, "%s%s", before, value);
    fprintf(out, "` | %s | ", dialect_names[row->whose].name);
    switch (row->verb) {
    case VERB_SAME:   fprintf(out, "`--%s`%s", ours, unit_text[row->convert]); break;
    case VERB_WITH:
        fprintf(out, "`--%s` with `--%s %s`", ours, option_rows[row->values].name, row->text);
        break;
    case VERB_MEANS:   fprintf(out, "`--%s %s`", ours, row->text); break;
    case VERB_IGNORED: fprintf(out, "ignored: %s", row->text); break;
    case VERB_HELD:    fprintf(out, "%s", row->text); break;
    case VERB_REFUSE:  fprintf(out, "refused: %s; %s", row->text, row->cure); break;
    case VERB_MISSING: fprintf(out, "not taken: %s; %s", row->text, row->cure); break;
    case VERB_SUGGEST: fprintf(out, "not taken; here %s", row->text); break;
    }
    fprintf(out, " |\n");
}

void compat_markdown(FILE *out)
{
    fprintf(out, "\n## Options of other trainers\n\n"
                 "In the environment their names begin with `JOTUN_` as well, but for those of %s,\n"
                 "which are variables of their own: `jotun train` and `jotun config` read them where\n"
                 "`JOTUN_DIALECT=argonne` is set, since names as short as `TP` may mean something else.\n\n"
                 "| option | whose | here |\n|---|---|---|\n",
            dialect_names[DIALECT_ARGONNE_INDEX].name);
    for (int i = 0; i < dialect_count; i++) write_row(out, &dialects[i]);
}
