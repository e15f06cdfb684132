#ifndef CONF_ROWS_H
#define CONF_ROWS_H
/* Looking up the rows, and the field of a row. */
#include "conf/options.h"

int  option_find  (const char *name);                           /* by name or alias, without dashes; -1 */
int  option_word  (OptionIndex option, const char *word);   /* WORD_... of a choice, whatever its case */
bool option_taken (OptionIndex option, int command);
/* The words of a choice, "LayerNorm or RMSNorm" with between ", " and last " or ". */
const char *option_choices(char *out, size_t size, OptionIndex option, const char *between, const char *last);
const char *option_group_name(OptionGroup group);
const char *command_name(int command);                           /* of the first of these bits: "train" */
/* All commands with these bits, "jotun train and jotun generate" with before "jotun " and last " and " */
const char *command_names(char *out, size_t size, int bits, const char *before, const char *last);

/* What comes nearest to a mistyped name, among what `command` takes (0: all) and dialects; NULL: none */
const char *option_nearest(const char *name, int command);
int         word_distance (const char *a, const char *b);  /* insert, delete, replace, swap */

static inline void *option_field(Options *o, OptionIndex option)
{
    return (char *)o + option_rows[option].offset;
}
static inline const void *option_field_of(const Options *o, OptionIndex option)
{
    return (const char *)o + option_rows[option].offset;
}

/* What a preset is: words of the command line. */
typedef struct { const char *name, *words, *help; } Preset;
extern const Preset presets[];
extern const int    preset_count;
const Preset *preset_find(const char *name);

/* Names of other trainers. */
typedef enum { DIALECT_ALIAS, DIALECT_MEANS, DIALECT_PASSED, DIALECT_REFUSE } DialectVerb;
typedef struct {
    DialectVerb verb;
    const char *whose, *name;
    int         option;         /* ALIAS, MEANS */
    int         values;         /* PASSED: how many words follow it */
    const char *text;           /* MEANS: our value; PASSED, REFUSE: why */
} Dialect;
extern const Dialect dialects[];
extern const int     dialect_count;
const Dialect *dialect_find(const char *name);
#endif
