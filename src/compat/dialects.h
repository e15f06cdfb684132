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
    VERB_SAME, VERB_WITH, VERB_MEANS, VERB_IGNORED, VERB_HELD, VERB_REFUSE, VERB_SUGGEST, VERB_MISSING
} DialectVerb;
typedef struct {
    DialectVerb  verb;
    DialectIndex whose;
    const char  *name;
    const char  *given;         /* the row is only for these values of theirs; "": for any */
    int          option;        /* SAME, WITH, MEANS; otherwise -1 */
    Conversion   convert;       /* SAME */
    int          values;        /* how many words follow it; -1: all up to the next name. WITH: the other
                                   option, whose value is `text` */
    /* MEANS: our value; IGNORED, REFUSE, MISSING: why; HELD: of what; SUGGEST: our name for it */
    const char  *text;
    const char  *cure;          /* REFUSE, MISSING: what to do instead */
} Dialect;
extern const Dialect dialects[];
extern const int     dialect_count;
/* Lists of names, separated by blanks. The next one of the list, which is moved; false behind the last. */
bool name_next(char *out, size_t size, const char **list);
bool name_in(const char *list, const char *name, int (*compare)(const char *, const char *));

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
/* The name nearest to a mistyped one among those that `command` takes; false and "" where none is near. */
bool dialect_nearest(char *out, size_t size, unsigned understood, const char *name, CommandSet command);
/* Whose name it is, "Megatron-LM"; of a command of theirs its name. */
const char *dialect_owner(const Dialect *row, CommandSet command);
/* DIALECT_... bits that a command of jotun understands. */
unsigned    dialects_understood(CommandSet command);

/* What a name demands of another option. NULL: nothing. */
const OptionDemand *dialect_demand(const Dialect *row);
#endif
