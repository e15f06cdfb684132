/* Names of train_aGPT_7B.sh's variables, and those that people write instead. The environment has many
 * others, so that a name counts as mistyped only where it is long enough to be no coincidence. */
#include "conf/import/agpt.h"
#include <string.h>
#include "conf/rows.h"

static const struct {
    const char *names, *right;
} names[] = {
#define VARIABLE(id, names, text) {names, NULL},
#define WRONG(names, right) {names, right},
#define EXPORTED(names) {names, NULL},
#include "conf/dialects.def"
};
enum { NAMES = sizeof names / sizeof names[0], NAME = 64, LEAST_LETTERS = 5 };

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
