#ifndef CORPUS_READ_INPUTS_H
#define CORPUS_READ_INPUTS_H
/* Expands what a user gives as --input into a list of files. An argument is a file; - for standard input; a
 * folder, of which all files are taken, recursively and sorted by bytes so that the order is the same on
 * every machine; or @F, a text file that lists files and folders, one per line, each line no longer than a
 * path may be. A file named @x is given as ./@x. */
#include <stdint.h>
#include "corpus/read/lines.h"

typedef struct {
    char    **path;             /* [paths], owned */
    int64_t   paths, capacity;  /* capacity: entries of path */
    int64_t   ignored;          /* ignored in folders: hidden, of an unknown ending, or not a regular file */
    char     *ignored_first;    /* path of the first ignored one, owned; NULL: there is none */
} Inputs;

/* Fills *inputs, which is empty after a failure. BAD_FILE: something cannot be read, is in no known format,
 * or the result would be empty. `wanted` decides which endings are known. */
Status inputs_expand(Inputs *inputs, const char *const *given, int count, BlockKind wanted);
void   inputs_free  (Inputs *inputs);
#endif
