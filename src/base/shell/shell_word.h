#ifndef BASE_SHELL_SHELL_WORD_H
#define BASE_SHELL_SHELL_WORD_H
/* Command lines that a person may copy into a shell. */
#include <stdio.h>

/* Writes a word as bash reads it: as it is, or in quotes where it has more than paths, options and numbers
 * have; control bytes as escapes of $'...'. */
void shell_word_write(FILE *out, const char *word);
#endif
