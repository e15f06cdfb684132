#ifndef CLI_HELP_H
#define CLI_HELP_H
/* Help on a terminal, docs/options.md and what bash completes, made from the rows of commands and options.
 * Man pages are made of the help by help2man (cmake/docs.cmake). */
#include "cli/command.h"

void help_program    (FILE *out);
void help_command    (FILE *out, const Command *command);
void help_subcommands(FILE *out, const char *first_word);        /* of "tokenizer": encode, decode ... */
void help_markdown   (FILE *out);                                /* docs/options.md */
/* For completion, a line each: the first words of commands; with words, those that follow the first one, or
 * the options of the command that they name: "--tokenizer path", "--bf16", "--kernels words auto avx2". */
void help_words      (FILE *out, int argc, char **argv);
#endif
