#ifndef COMPAT_COMPAT_H
#define COMPAT_COMPAT_H
/* Other programs, as the rest of jotun sees them. What is written for one of them, as arguments, variables,
 * keys of a file, JSON or a script, comes out as words of jotun, which the options take:
 *
 *     compat_open         whose command line it is
 *     compat_words        names, of the environment, a command line, a YAML file   -> options_take
 *     compat_arguments    a command line whose arguments are read together         -> options_take
 *     compat_variables    the variables of a script                                -> options_take
 *     compat_settings     JSON, and what follows from all values so far            -> options_take */
#include "compat/alcf/agpt.h"
#include "conf/words.h"

/* A command of another program: a row of commands.def. */
typedef enum { READ_WORDS, READ_TOGETHER, READ_SCRIPT } ReadingKind;
typedef struct {
    const char *name, *gives;                /* gives: words beside those that were typed */
    CommandSet  takes;
    ReadingKind kind;
} ForeignCommand;
const ForeignCommand *foreign_command(const char *name);             /* NULL: there is none */
/* The word that says whose command line it is: "--as=fairseq-train", before all others. */
#define FOREIGN_WORD "--as="

typedef struct {
    const ForeignCommand *as;                       /* NULL: a command line of jotun's own */
    int            ranks;                    /* of the launcher; 0: none */
    bool           variables;                /* those of a script are asked for */
    AgptRun        run;                      /* what they were found to mean on this machine */
    struct Fairseq *fairseq;
} Compat;

/* Takes FOREIGN_WORD off the words. compat_close is called after a failure too. */
Status compat_open     (Compat *c, CommandSet command, int ranks, int *argc, char ***argv);
void   compat_close    (Compat *c);
void   compat_words    (OptionWords *out, Compat *c, const OptionWords *words, CommandSet command);
/* Whether several arguments of the command line make one option, so that names do not do. */
bool   compat_reads_together(const Compat *c);
/* o: the options so far, as in the functions below. */
Status compat_arguments(OptionWords *out, Compat *c, const Options *o, int argc, char **argv);
Status compat_variables(OptionWords *out, Compat *c, const Options *o);
Status compat_settings (OptionWords *out, Compat *c, const Options *o, ConfigTexts *texts);

/* For `jotun config`: the words of another program's file, and remarks on them as comments of YAML, which
 * the caller frees. *status: BAD_OPTION where some of it cannot be taken. BAD_FILE: it cannot be read. */
Status compat_file(OptionWords *out, char **remarks, Status *status, const Options *o);
/* The options of a checkpoint, {"num-layers": 12}, of which an older version may have written some under
 * other words. A text that the caller frees; the same text where it is no JSON. */
char  *compat_saved(const char *json);
/* Names of options that take all words behind them, whatever these look like, as a script's own arguments. */
#define COMPAT_REST "from-script from-megatron"
/* Makes a folder of recorders, and says how a script is run with them and what reads what they wrote. */
Status compat_recorders(FILE *out, const char *folder);

/* Arguments of a program for its help. Argument i, from 0; false behind the last one. The texts live until
 * the next call of this thread. */
typedef struct { const char *dashes, *name, *value, *help; } ForeignArgument;         /* dashes: "--" or "" */
bool   foreign_argument(ForeignArgument *argument, const ForeignCommand *program, int i);
/* The heading above them; NULL: the program has none of its own. heading of jotun's options behind them. */
const char *foreign_heading(const ForeignCommand *program);
const char *foreign_options_heading(const ForeignCommand *program);
/* The tables of names for docs/options.md. */
void   compat_markdown (FILE *out);
#endif
