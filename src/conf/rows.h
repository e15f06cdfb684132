#ifndef CONF_ROWS_H
#define CONF_ROWS_H
/* Looks up the rows of options.def and presets.def, and the field of a row. The tables are constant; all
 * returned strings are static unless the function has an `out`. */
#include "conf/options.h"

/* The row that one of these commands takes under this name, long or short, without dashes; -1 where none
 * does. FOR_ANY: the first row of that name, whoever takes it. */
int  option_find  (const char *name, CommandSet commands);
CommandSet option_takers(const char *name);    /* all that take an option of this name */
/* The CHOICE_... of a choice, upper and lower case alike; CHOICE_NOTHING where it has no such word. */
int  option_choice_find(OptionIndex option, const char *word);
/* Why it does not take a word that others have; NULL: the word is not known. */
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
bool        command_takes_words(CommandSet command);        /* positional arguments: a prefix, a folder */
/* All commands with these bits, "jotun train and jotun generate" with before "jotun " and last " and ".
 * Returns out. */
const char *command_names(char *out, size_t size, CommandSet commands, const char *before, const char *last);

/* The name nearest to a mistyped one among what `command` takes; NULL where none is near. */
const char *option_nearest(const char *name, CommandSet command);
/* The one of two names that is nearer, the first of equals; either may be NULL. */
const char *option_nearer (const char *name, const char *a, const char *b);
/* Whether b is near to a, how near being in *near before and after; never the opposite: --swiglu for
 * --no-swiglu. */
bool        name_is_nearer(int *near, const char *a, const char *b);
int         name_near_enough(const char *name);            /* *near to begin with */
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

/* What a command cannot do without, to a row without `says`. */
typedef struct { CommandSet command; OptionIndex option; const char *says; } OptionNeeded;
extern const OptionNeeded options_needed_rows[];
/* What to write after an option that the command cannot do without, and what it is: "S (the text to
 * continue)"; NULL for other options. */
const char *option_needed(OptionIndex option, CommandSet command);

/* A preset is a piece of command line. */
typedef struct { const char *name, *words, *help; } Preset;
extern const Preset presets[];
extern const int    preset_count;
const Preset *preset_find(const char *name);
#endif
