#ifndef CONF_SCRIPT_INSIDE_H
#define CONF_SCRIPT_INSIDE_H
/* What the files of this directory share: the state of a script that is read, its variables, and expansion.
 * Errors are kept in the state: functions do nothing after the first one, and return texts that are empty. */
#include <stdint.h>
#include "conf/script/script.h"

typedef struct {
    const char *name;
    ScriptWords values;
    bool        array;
    bool        keyed; /* elements have names: each is also a variable NAME[name] */
} Variable;

/* The text of a body and its first line. skipped: function_skip is reading it. */
typedef struct {
    const char *name, *begin, *end;
    int         line;
    bool        skipped;
} Function;

typedef struct {
    Script     *script;
    Status      status;      /* of the first failure */
    const char *begin, *end; /* of the text that is read: the file, or a word of eval */
    int         first_line;  /* of `begin` */
    const char *counted;     /* lines are counted up to here */
    int         counted_line;
    Variable   *variable; /* [variables] */
    int         variables;
    ScriptWords given;            /* $1 ... */
    size_t      held_bytes, work; /* work: letters compared with patterns */
    int         depth;            /* of evals and nested expansions */
    bool        testing;          /* unset variables are empty, as in [ -z "$X" ] */
    Function   *function; /* [functions] */
    int         functions, calls; /* calls: of functions, that are read now */
    size_t      called;           /* bytes of bodies that calls have read */
    Variable   *local;            /* [locals] the values that variables of functions have after the call */
    int         locals;
    bool        returning; /* to the call */
    int         doubts;    /* conditions around the command that are not known */
    ScriptWords doubtful;  /* names of variables set there, "+NAME" where something was added */
    const char *assigning;        /* the name whose value is expanded: A="$A x" begins with nothing */
} Reader;

enum { SCRIPT_DEPTH = 24, SCRIPT_WORK = 200 << 20, SCRIPT_CALLED = 4 << 20 };

/* line: of the text's first line in the file. Returns what the last command says: 1 (it succeeds), 0 or -1
 * (not known). */
int commands_read(Reader *r, const char *begin, const char *end, int line);
/* Commands that are not followed: those of a loop, or of a condition that is not known. */
void commands_skip(Reader *r, const char *begin, const char *end, int line, bool in_loop);

void        reader_fail(Reader *r, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void        reader_note(Reader *r, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *reader_hold(Reader *r, const char *text, size_t bytes); /* a copy that ends with 0 */
void        reader_release(Script *s);                                     /* all texts */
void        words_add(Reader *r, ScriptWords *words, const char *text, int line);
Variable   *variable_find(const Reader *r, const char *name, size_t letters);
Variable   *variable_make(Reader *r, const char *name, size_t letters);
/* The element of this name; NULL: there is none. */
const ScriptWord *element_find(const Reader *r, const Variable *array, const char *key);

/* The end of a word of a script that begins at p, quotes and brackets included. */
const char *word_end(Reader *r, const char *p, const char *end, int line);
/* Whether the word from p to e is a backslash and a blank at the end of a line, and what is said of that. */
bool blank_ends_line(const char *p, const char *e, const char *end);
#define BLANK_ENDS_LINE \
    "a blank follows the \\ at the end of this line, so that bash does not continue it; take the blank away"
/* After the bracket of $( ${ $(( or ` that begins at p. */
const char *bracket_end(Reader *r, const char *p, const char *end, int line);
/* The fields of one word, split where bash splits; as one text, which is not split. */
void        expand_fields(Reader *r, ScriptWords *out, const char *p, const char *end, int line);
const char *expand_text(Reader *r, const char *p, const char *end, int line);
const char *expand_here(Reader *r, const char *p, const char *end, int line); /* the lines of <<EOF */
/* The letters of NAME of a word NAME=, NAME+= or NAME[key]=; 0: none. *sign: where = or += is. */
size_t assigned_name(const char *p, const char *end, const char **sign);
/* After the ) of an array, whose elements may have comments between them. */
const char *array_end(Reader *r, const char *p, const char *end, int line);
void        assign(Reader *r, const char *p, const char *e, int line);
/* Of a loop, which is not followed: what adds to a variable leaves its value unknown. */
void        assign_in_loop(Reader *r, const char *p, const char *e, int line);
/* Of a condition that is not known: which values its variables have is not known behind it. */
void        assign_in_doubt(Reader *r, const char *p, const char *e, int line);
void        doubt_ends(Reader *r);
/* The value of an expression of $(( )), whose variables are expanded already. false: it is unknown. */
bool arithmetic(Reader *r, int64_t *value, const char *text, int line);
/* What [ ... ], [[ ... ]] or test say of these words, without the brackets: 1, 0, or -1 where it is unknown.
 */
int         condition(Reader *r, const ScriptWords *words, bool patterns);
bool        text_matches(Reader *r, const char *text, const char *pattern); /* as in case */
const char *known_text(Reader *r, const char *text);                        /* unknown parts left out */
const char *tested_text(Reader *r, const char *text); /* the same where they are variables that nobody set */
#endif
