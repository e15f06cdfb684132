#include "cli/process/word_list.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/shell/shell_word.h"
#include "base/status.h"

static char *formatted(const char *format, va_list arguments)
{
    char *text = NULL;
    CHECK(vasprintf(&text, format, arguments) >= 0, "no memory for a word of a command line");
    return text;
}

/* Takes the word over. */
static void push(WordList *list, char *word)
{
    ARRAY_RESERVE_OR_STOP(list->word, list->room, list->count + 2);
    CHECK(word, "no memory for the words of a command line");
    list->word[list->count++] = word;
    list->word[list->count] = NULL;
}

void word_list_add(WordList *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    push(list, formatted(format, arguments));
    va_end(arguments);
}

void word_list_split(WordList *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *rest = NULL, *text = formatted(format, arguments);
    va_end(arguments);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        push(list, strdup(word));
    free(text);
}

void word_list_free(WordList *list)
{
    for (int i = 0; i < list->count; i++) free(list->word[i]);
    free(list->word);
    *list = (WordList){ 0 };
}

void word_list_write(FILE *out, const WordList *list)
{
    for (int i = 0; i < list->count; i++) {
        fputc(' ', out);
        shell_word_write(out, list->word[i]);
    }
}

json_t *word_json(const char *word)
{
    json_t *value = json_string(word);
    if (value) return value;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for a word of a command line");
    fputs("bytes ", out);
    for (; *word; word++) fprintf(out, "%02x", (unsigned char)*word);
    CHECK(fclose(out) == 0 && (value = json_string(text)), "no memory for a word of a command line");
    free(text);
    return value;
}

json_t *word_list_json(const WordList *list)
{
    json_t *array = json_array();
    for (int i = 0; i < list->count; i++)
        CHECK(json_array_append_new(array, word_json(list->word[i])) == 0, "no memory for a command line");
    return array;
}
