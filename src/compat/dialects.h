#ifndef COMPAT_DIALECTS_H
#define COMPAT_DIALECTS_H
/* The rows of dialects.def: names of other programs' options, and what they are here. */
#include "conf/rows.h"

/* Names of other programs, by namespace. One name may mean different things in two of them, and a command
 * understands some of them only. */
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
/* Whether `command` takes the row's option; a row without one is of training, so that only train and config
 * take it, or of the command fairseq-preprocess. */
bool dialect_taken(const Dialect *row, CommandSet command);
/* The SUGGEST or MISSING row of a name, in which - and _ are alike; NULL: none. */
const Dialect *dialect_suggestion(unsigned understood, const char *name);
/* The name nearest to a mistyped one among those that `command` takes; NULL where none is near. */
const char *dialect_nearest(unsigned understood, const char *name, CommandSet command);
/* Whose name it is, "Megatron-LM"; of a command of theirs its name. */
const char *dialect_owner(const Dialect *row, CommandSet command);
/* DIALECT_... bits that a command of jotun understands. */
unsigned    dialects_understood(CommandSet command);

/* What a name demands of other options: rows DEMAND. NULL: nothing. */
const OptionDemand *dialect_demand(const Dialect *row);
#endif
