#ifndef CLI_PROCESS_WORD_LIST_H
#define CLI_PROCESS_WORD_LIST_H
/* The words of a command line that grows. */
#include <jansson.h>
#include <stdio.h>

/* Owned; begins as zeros; ends with NULL where it is not empty, as child_start wants it. */
typedef struct { char **word; int count, room; } WordList;

/* One word, formatted, of any bytes: a path of the user's may have blanks. Memory that is refused is a
 * CHECK. */
void word_list_add  (WordList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Words with blanks between them, "--lr 1e-3 --bf16", formatted, without a text of the user's. */
void word_list_split(WordList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void word_list_free (WordList *list);
/* As a shell reads them, each after a blank */
void word_list_write(FILE *out, const WordList *list);
/* A word as JSON has it; of one that is not UTF-8, which JSON has no text for, "bytes " and its bytes in
 * hexadecimal digits. Memory that is refused is a CHECK. */
json_t *word_json(const char *word);
/* All of them, an array */
json_t *word_list_json(const WordList *list);
#endif
