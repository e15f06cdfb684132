#ifndef BASE_WORDS_H
#define BASE_WORDS_H
/* Names, and lists of them in rows of tables: "linear yarn rope_*", with one blank between. */
#include <stdbool.h>
#include <stdint.h>
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

/* Whether `bytes` bytes of a text begin or end so, or are all among the characters of `set`. */
static inline bool has_beginning(const char *text, int64_t bytes, const char *with)
{
    int64_t length = (int64_t)strlen(with);
    return bytes >= length && !memcmp(text, with, (size_t)length);
}
static inline bool has_ending(const char *text, int64_t bytes, const char *with)
{
    int64_t length = (int64_t)strlen(with);
    return bytes >= length && !memcmp(text + bytes - length, with, (size_t)length);
}
static inline bool has_only(const char *text, int64_t bytes, const char *set)
{
    for (int64_t i = 0; i < bytes; i++)
        if (!text[i] || !strchr(set, text[i])) return false;
    return true;
}

static inline bool text_ends(const char *text, const char *end)
{
    size_t bytes = strlen(text), last = strlen(end);
    return bytes >= last && !strcmp(text + bytes - last, end);
}
#endif
