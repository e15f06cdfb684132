#ifndef CLI_CHILD_PROCESS_H
#define CLI_CHILD_PROCESS_H
/* A command of jotun as a child process, which has its own memory and signals and does not outlive this one;
 * and the words of its command line. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include "base/status.h"

typedef struct {
    char *const *word;          /* of the command line behind `jotun`; NULL ends it */
    int          out, err;      /* descriptors that take its standard output and error; -1: as ours */
    char *const *environment;   /* "NAME=value", whole, ending with NULL; NULL: ours */
    int          orphan_signal; /* what it gets when this process dies */
    bool         group;         /* a process group of its own and no input, so that a terminal's Ctrl-C
                                 * reaches this process alone, which passes it on */
} ChildStart;

/* NO_MEMORY: there is no process to be had. */
Status child_start(pid_t *process, ChildStart start);
/* Whether it has ended, and then its state as waitpid has it. */
bool child_ended(pid_t process, int *state);
/* Exit code 0 */
bool child_succeeded(int state);
/* "exit code 1" or "ended by signal 15 (Terminated)" */
void child_end_words(char *text, size_t room, int state);

/* The words of a command line that grows. */
/* Owned; begins as zeros; ends with NULL where it is not empty, as child_start wants it. */
typedef struct { char **word; int count, room; } WordList;

/* One word, formatted, of any bytes: a path of the user's may have blanks. Memory that is refused is a
 * CHECK. */
void word_list_add  (WordList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An option and its value, which is one word of any bytes */
void word_list_option(WordList *list, const char *name, const char *value);
/* Words with blanks between them, "--lr 1e-3 --bf16", formatted, without a text of the user's. */
void word_list_split(WordList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void word_list_free (WordList *list);
/* As a shell reads them, each after a blank */
void word_list_write(FILE *out, const WordList *list);
/* Words as an array of texts, those that are not UTF-8 in hexadecimal digits. Memory that is refused is a
 * CHECK. */
json_t *words_json(const char *const *word, int count);
#endif
