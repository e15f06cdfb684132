#ifndef CONF_WORDS_H
#define CONF_WORDS_H
/* Options as words, on their way from where they are written into Options:
 *
 *     collected      from the environment, a command line, a YAML file
 *     translated     by module compat, where they are names of another program
 *     set            options_take (parse.c), which checks each and names all that it cannot take at once
 *
 * Each word keeps where it was written, so that messages name that, whatever it was translated to. */
#include "conf/conf.h"

typedef struct {
    const char  *name;          /* of an option, without dashes; NULL: positional words */
    const char **value;         /* [values]: what is written behind it */
    int          values;
    bool         whole;         /* all values are the option's, as after =; else as many as its kind needs */
    bool         list;          /* they were written as a list, so that one value is not the same */
    bool         shared;        /* of a source for several commands: options of others are left out */
    bool         ended;         /* positional words behind -- */
    bool         replaces;      /* a list that replaces the one from the same source */
    OptionSource source;        /* kind; name as typed; from; of a translated word convert and bare */
    CommandSet   takers;        /* of a name that is no option's: commands that know it; 0: none */
    const char  *note;          /* why it has no effect as it was given, a line for the log; or NULL */
    const char  *refusal;       /* why it cannot be taken, a message; NULL: it can */
    Status       status;        /* of the refusal */
    const char  *nearest;       /* another program's name near to this one, which is unknown; or NULL */
} OptionWord;

typedef struct {
    OptionWord   *word;
    int           count, room;
    OptionDemand *demand;
    int           demands, demand_room;
    int           left_out;     /* by options_take: words of other commands, and whose they are */
    CommandSet    takers;
    void         *held;         /* memory of texts: words_close */
} OptionWords;

/* A new word at the end, from this source; its texts are copied. name: NULL, or without dashes. */
OptionWord *words_push  (OptionWords *words, const char *name, OptionSource source);
void        words_value (OptionWords *words, OptionWord *word, const char *value);
/* A text that lives as long as the words. */
const char *words_hold  (OptionWords *words, const char *text);
__attribute__((format(printf, 2, 3)))
const char *words_format(OptionWords *words, const char *format, ...);
void        words_demand(OptionWords *words, OptionDemand demand);         /* copies its texts */
/* A copy of one word of other words. */
OptionWord *words_append(OptionWords *words, const OptionWord *word);
void        words_close (OptionWords *words);

/* Variables JOTUN_NUM_LAYERS: those that are no options of the command first, which may be names of other
 * programs, then its options. */
void words_environment (OptionWords *words, CommandSet command);
/* --num-layers 4, --num-layers=4 and positional words. kind, from: of the source of their values; rest: names
 * of options, with blanks between, to which all words behind them belong. */
void words_command_line(OptionWords *words, SourceKind kind, const char *from, const char *rest, int argc,
                        char **argv);

/* Sets the words. What cannot be taken is refused all at once: one message of all of them. notes: gets the
 * lines about words that have no effect as they were given; NULL: the log has them. Words of other commands
 * are counted in words->left_out, where their source is shared. */
Status options_take(Options *o, OptionWords *words, TextList *notes);

/* A copy of the options, for whoever wants to see what words would do to them. It may outlive neither o nor
 * its texts; options_close frees it. */
void options_copy (Options *copy, const Options *o);
/* The words by which `after`, a copy of `before` that was changed, differs from it. */
void words_between(OptionWords *words, const Options *after, const Options *before);
#endif
