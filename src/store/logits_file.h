#ifndef STORE_LOGITS_FILE_H
#define STORE_LOGITS_FILE_H
/* What --save-logits writes: a safetensors file with one tensor `logits` [prompts, new tokens, vocabulary] of
 * F32. Row (p, n) is what new token n of prompt p was drawn from; rows after the end of a text are zeros. The
 * ranks that draw write their own rows into the same file, which gets its name when it is whole. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct { const char *path; int64_t prompts, most, vocabulary; } LogitsShape;

typedef struct {
    LogitsShape shape;
    char    part[1024];                 /* the file until it is whole */
    int     fd;
    bool    created;                    /* `part`, by this rank */
    int64_t first;                      /* offset of the first row */
    float  *row;                        /* [vocabulary], owned */
    Status  status;                     /* of writing; with its message in fail_text() */
} LogitsFile;

/* On one rank, before the others open it: the header, and rows of zeros. */
Status logits_file_create(LogitsFile *file, const LogitsShape *shape);
/* On a rank that draws, with the shape of the rank that created it. */
Status logits_file_open  (LogitsFile *file, const LogitsShape *shape);
/* number: of the new token within its text, from 0 on */
void   logits_file_put   (LogitsFile *file, int64_t prompt, int64_t number, const double *logits);
/* Ends writing on this rank; also after a failure, and where it was not opened. */
Status logits_file_close (LogitsFile *file);
/* On one rank, when all have closed it: gives it its name. */
Status logits_file_name  (const LogitsFile *file);
/* On all ranks, after a failure: the one that has created the file removes what there is of it. */
void   logits_file_remove(const LogitsFile *file);
#endif
