/* Names of train_aGPT_7B.sh's variables, and those that people write instead. The environment has many
 * others, so that a name counts as mistyped only where it is long enough to be no coincidence. */
#include "compat/alcf/agpt.h"
#include <string.h>
#include "base/array.h"
#include "compat/dialects.h"

static const struct {
    const char *names, *right;
} names[] = {
#define VARIABLE(id, names, text) {names, NULL},
#define WRONG(names, right) {names, right},
#define EXPORTED(names) {names, NULL},
#include "compat/dialects.def"
};
enum { NAMES = COUNT(names), NAME = 64, LEAST_LETTERS = 5 };

/* The names of the list one after the other; false behind the last one. */
static bool next_name(char out[NAME], const char **list)
{
    size_t letters = strcspn(*list, " ");
    if (!letters) return false;
    snprintf(out, NAME, "%.*s", (int)letters, *list);
    *list += letters + ((*list)[letters] == ' ');
    return true;
}

static bool has_name(const char *list, const char *name)
{
    char one[NAME];
    while (next_name(one, &list))
        if (!strcmp(one, name)) return true;
    return false;
}

/* Up to two edits of a long name, one of a shorter one. The first of the names of a row is the one to give.
 */
static const char *nearest(const char *name)
{
    static _Thread_local char best[NAME];
    size_t                    letters = strlen(name);
    int                       edits   = letters < LEAST_LETTERS ? 0 : letters < 9 ? 2 : 3;
    bool                      found   = false;
    for (int i = 0; i < NAMES; i++) {
        const char *list = names[i].names;
        char        one[NAME], first[NAME];
        if (names[i].right) continue;
        for (int n = 0; next_name(one, &list); n++) {
            if (n == 0) memcpy(first, one, sizeof one);
            if (strlen(one) < LEAST_LETTERS || word_distance(name, one) >= edits) continue;
            edits = word_distance(name, one);
            found = true;
            memcpy(best, first, sizeof best);
        }
    }
    return found ? best : NULL;
}

bool agpt_variable(const char *name, const char **right, bool *certain)
{
    *right   = NULL;
    *certain = false;
    for (int i = 0; i < NAMES; i++) {
        if (!has_name(names[i].names, name)) continue;
        if (!names[i].right) return true;
        *right   = names[i].right;
        *certain = true;
        return false;
    }
    const Dialect *row = dialect_find(DIALECT_ARGONNE, name, NULL);
    if (row) return true;
    *right = nearest(name);
    return false;
}

/* ---- help ---- */

enum {
#define VARIABLE(id, names, text) V_##id,
#include "compat/dialects.def"
    VARIABLES
};
static const struct { const char *names, *text; } variables[VARIABLES] = {
#define VARIABLE(id, names, text) [V_##id] = {names, text},
#include "compat/dialects.def"
};
static const char *const said[VARIABLES] = {
#define SAID(id, what) [V_##id] = what,
#include "compat/dialects.def"
};

/* Of the architecture that is the default. */
static const char *default_shape(int v)
{
#define ARCHITECTURE(name, heads, layers, hidden, kv, ffn, seq, keeps)                                       \
    if (!strcmp(name, variables[V_MODEL_ARCH].text)) {                                                       \
        if (v == V_HEADS) return #heads;                                                                     \
        if (v == V_NLAYERS) return #layers;                                                                  \
        if (v == V_HIDDEN) return #hidden;                                                                   \
        if (v == V_NUM_KV_HEAD) return #kv;                                                                  \
        if (v == V_FFN_HIDDEN_SIZE) return #ffn;                                                             \
        if (v == V_SEQ) return #seq;                                                                         \
    }
#include "compat/dialects.def"
    return "";
}

static const char *default_of(int v) { return *variables[v].text ? variables[v].text : default_shape(v); }

static const Dialect *row_of(int v)
{
    char        first[NAME];
    const char *list = variables[v].names;
    return next_name(first, &list) ? dialect_find(DIALECT_ARGONNE, first, NULL) : NULL;
}

bool agpt_help(AgptHelp *help, int i)
{
    static _Thread_local char what[512];
    if (i < 0 || i >= VARIABLES) return false;
    const Dialect *row = row_of(i);
    *help = (AgptHelp){.fallback = default_of(i), .what = what};
    snprintf(help->names, sizeof help->names, "%s", variables[i].names);
    if (said[i]) snprintf(what, sizeof what, "%s", said[i]);
    else if (row && row->option >= 0) snprintf(what, sizeof what, "--%s", option_rows[row->option].name);
    else if (row && row->verb == VERB_IGNORED) snprintf(what, sizeof what, "ignored: %s", row->text);
    else if (row) snprintf(what, sizeof what, "refused: %s; %s", row->text, row->cure);
    else *what = 0;
    return true;
}

const char *agpt_default(char *out, size_t size, OptionIndex option)
{
#define COMPUTED(field, from)                                                                                \
    if (option == OPTION_##field) return snprintf(out, size, "%s", from), out;
#define FIXED(without, ours, value)                                                                           \
    if (!strcmp(option_rows[option].name, ours)) return snprintf(out, size, "%s", value), out;
#include "compat/dialects.def"
    for (int v = 0; v < VARIABLES; v++) {
        const Dialect *row = row_of(v);
        if (!row || row->verb != VERB_ALIAS || row->option != (int)option) continue;
        snprintf(out, size, "%s%s%.*s", default_of(v), *default_of(v) ? ", " : "",
                 (int)strcspn(variables[v].names, " "), variables[v].names);
        return out;
    }
    return NULL;
}
