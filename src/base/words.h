#ifndef BASE_WORDS_H
#define BASE_WORDS_H
/* Names, and lists of them in rows of tables: "linear yarn rope_*", with one blank between. */
#include <stdbool.h>
#include <string.h>

/* Whether one of the words is this one, or ends in a star, for which something stands. */
static inline bool words_have(const char *words, const char *word, size_t bytes)
{
    for (const char *a = words; *a; a += strcspn(a, " "), a += *a == ' ') {
        size_t letters = strcspn(a, " ");
        bool   star    = letters && a[letters - 1] == '*';
        if ((star ? bytes >= letters : bytes == letters) && !memcmp(a, word, letters - star)) return true;
    }
    return false;
}

static inline bool text_ends(const char *text, const char *end)
{
    size_t bytes = strlen(text), last = strlen(end);
    return bytes >= last && !strcmp(text + bytes - last, end);
}
#endif
