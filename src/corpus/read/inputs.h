#ifndef CORPUS_READ_INPUTS_H
#define CORPUS_READ_INPUTS_H
/* What a user gives as input, as a list of files: a file; - for standard input; a folder, with all in it, sorted by
 * bytes; @F, a file that names such things, one a line, none longer than a
 * path may be. A file @x is told as ./@x.                                                                           */
#include <stdint.h>
#include "corpus/read/lines.h"

typedef struct {
    char  **path;
    int64_t paths, room;
    int64_t passed;                         /* in folders: what is hidden, has an ending that is none of ours, or is no file */
    char   *passed_first;
} Inputs;

Status inputs_expand(Inputs *inputs, const char *const *given, int count, BlockKind wanted);   /* BAD_FILE: nothing in it */
void   inputs_free  (Inputs *inputs);
#endif
