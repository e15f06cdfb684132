#ifndef CONF_ROWS_H
#define CONF_ROWS_H
/* Looks up the rows of options.def, presets.def (rows.c) and dialects.def (dialects.c), and the field of a
 * row. The tables are constant; all returned strings are static unless the function has an `out`. */
#include "conf/options.h"

/* The row that one of these commands takes under this name, long or short, without dashes; -1 where none
 * does. FOR_ANY: the first row of that name, whoever takes it. */
int  option_find  (const char *name, CommandSet commands);
CommandSet option_takers(const char *name);    /* all that take an option of this name */
/* The CHOICE_... of a choice, upper and lower case alike; CHOICE_NOTHING where it has no such word. */
int  option_choice_find(OptionIndex option, const char *word);
/* Why it does not take a word of another trainer; NULL: the word is not known. */
const char *option_choice_refused(OptionIndex option, const char *word);
bool option_taken (OptionIndex option, CommandSet commands);
const char *option_short(OptionIndex option);               /* "tp"; "" where it has one name only */
/* The word for its value in help: "N", "DIR"; "" of FLAG and CHOICE. */
const char *option_value(OptionIndex option);
const char *option_help (OptionIndex option, CommandSet command);
/* For help: the row's default, or "the checkpoint's" where these commands take it from there. */
const char *option_default(OptionIndex option, CommandSet command);
/* The words of a choice, "LayerNorm or RMSNorm" with between ", " and last " or ". Returns out. */
const char *option_choices(char *out, size_t size, OptionIndex option, const char *between, const char *last);
/* The title of the group that begins with this option; NULL where none does. */
const char *option_group_begins(OptionIndex option);
const char *option_group_title (OptionIndex option);
bool        option_group_find  (const char *key);           /* whether a GROUP has this key, MODEL or model */
const char *option_group_keys  (char *out, size_t size);    /* "model, experts, ..."; returns out */
const char *command_name(CommandSet command);               /* of the first of these bits: "train" */
unsigned    command_dialects(CommandSet command);           /* DIALECT_... bits that it understands */
bool        command_takes_words(CommandSet command);        /* positional arguments: a prefix, a folder */
/* All commands with these bits, "jotun train and jotun generate" with before "jotun " and last " and ".
 * Returns out. */
const char *command_names(char *out, size_t size, CommandSet commands, const char *before, const char *last);

/* The name nearest to a mistyped one, among what `command` takes and its dialects; NULL where none is
 * near. */
const char *option_nearest(const char *name, CommandSet command, unsigned understood);
int         word_distance (const char *a, const char *b);  /* insert, delete, replace, swap */

static inline void *option_field(Options *o, OptionIndex option)
{
    return (char *)o + option_rows[option].offset;
}
static inline const void *option_field_of(const Options *o, OptionIndex option)
{
    return (const char *)o + option_rows[option].offset;
}

/* What an option does nothing without: rows of options.def, in their order. */
typedef enum { WANTS_REFUSED, WANTS_ALTERNATIVE, WANTS_IN_TRAINING, WANTS_REPORTED, WANTS_ABSENT,
               WANTS_BUILT } WantsKind;
typedef struct { WantsKind kind; OptionIndex option, other; const char *value; } OptionWants;
extern const OptionWants option_wants[];
extern const int         option_wants_count;

/* A preset is a piece of command line. */
typedef struct { const char *name, *words, *help; } Preset;
extern const Preset presets[];
extern const int    preset_count;
const Preset *preset_find(const char *name);

/* Other trainers' names, by namespace. One name may mean different things in two of them; a command
 * chooses which ones it understands (command_dialects, options_parse_dialects). */
typedef enum {
#define DIALECT(dialect, name, prefix) DIALECT_##dialect##_INDEX,
#include "compat/dialects.def"
    DIALECTS
} DialectIndex;
enum {
#define DIALECT(dialect, name, prefix) DIALECT_##dialect = 1 << DIALECT_##dialect##_INDEX,
#include "compat/dialects.def"
};
/* prefix: of its environment variables; key: "ARGONNE", which JOTUN_DIALECT names in upper or lower case */
typedef struct { const char *name, *prefix, *key; } DialectName;
extern const DialectName dialect_names[DIALECTS];

typedef enum {
    VERB_ALIAS, VERB_OPTIONAL, VERB_WITH, VERB_MEANS, VERB_IGNORED, VERB_PART, VERB_REFUSE, VERB_REFUSE_FLAG,
    VERB_SUGGEST, VERB_MISSING
} DialectVerb;
typedef struct {
    DialectVerb  verb;
    DialectIndex whose;
    const char  *name;
    const char  *given;         /* the row is for this value of theirs alone; "": for any */
    int          option;        /* ALIAS, OPTIONAL, WITH, MEANS; else -1 */
    Conversion   convert;       /* ALIAS */
    int          values;        /* IGNORED: how many words follow it; -1: all up to the next name.
                                   WITH: the other option, whose value is `text` */
    /* MEANS: our value; OPTIONAL, IGNORED, REFUSE, REFUSE_FLAG, MISSING: why; PART: of what; SUGGEST: our
       name for it */
    const char  *text;
    const char  *cure;          /* REFUSE, REFUSE_FLAG, MISSING: what to do instead */
} Dialect;
extern const Dialect dialects[];
extern const int     dialect_count;
/* The row of a name in these namespaces, for a value (NULL: none is given); rows for that very value come
 * first. NULL: no row. SUGGEST and MISSING rows are not found here: they only help a refusal. */
const Dialect *dialect_find(unsigned understood, const char *name, const char *value);
bool dialect_only_hints(const Dialect *row);     /* a SUGGEST or MISSING row */
bool dialect_has_names(const Dialect *row);      /* its name is several, or ends in a star */
/* Whether `command` takes the row's option; a row without one is of training, so that train and config
 * alone take it, or of the command fairseq-preprocess. */
bool dialect_taken(const Dialect *row, CommandSet command);
/* The SUGGEST or MISSING row of a name, in which - and _ are alike; NULL: none. */
const Dialect *dialect_suggestion(unsigned understood, const char *name);
#endif
