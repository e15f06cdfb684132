/* Names of DeepSpeed's JSON, among the rows of deepspeed.def: that of a group, and those near to one that is
 * misspelt. */
#include <limits.h>
#include <string.h>
#include "compat/deepspeed/deepspeed.h"

bool deepspeed_group(const char *key)
{
    size_t letters = strlen(key);
    for (int i = 0; i < dialect_count; i++) {
        if (dialects[i].whose != DIALECT_DSJSON_INDEX) continue;
        for (const char *a = dialects[i].name; *a; a += strcspn(a, " "), a += *a == ' ')
            if (!strncmp(a, key, letters) && (a[letters] == '.' || a[letters] == '*')) return true;
    }
    return false;
}

/* How far a key is from a name, of which as many parts count as the key has; *shown: their letters. A name
 * that ends as the key does is that of another place. */
static int name_distance(int *shown, const char *key, const char *name, int letters)
{
    char        part[DEEPSPEED_KEY];
    const char *last = strrchr(key, '.'), *end;
    int         dots = 0, n = 0;
    for (const char *c = key; *c; c++) dots += *c == '.';
    while (n < letters && (name[n] != '.' || dots-- > 0)) n++;
    snprintf(part, sizeof part, "%.*s", *shown = letters, name);
    if (strchr(part, '*')) return INT_MAX;
    if ((end = strrchr(part, '.')) && !strcmp(end + 1, last ? last + 1 : key)) return 0;
    snprintf(part, sizeof part, "%.*s", *shown = n, name);
    return word_distance(key, part);
}

const char *deepspeed_nearest(char *out, size_t size, const char *key)
{
    int near = (int)strlen(key) / 4 < 3 ? (int)strlen(key) / 4 + 1 : 4, shown;
    out[0] = 0;
    for (int i = 0; i < dialect_count; i++) {
        if (dialects[i].whose != DIALECT_DSJSON_INDEX) continue;
        for (const char *a = dialects[i].name; *a; a += strcspn(a, " "), a += *a == ' ') {
            int distance = name_distance(&shown, key, a, (int)strcspn(a, " "));
            if (distance >= near) continue;
            near = distance;
            snprintf(out, size, "%.*s", shown, a);
        }
    }
    return out;
}
