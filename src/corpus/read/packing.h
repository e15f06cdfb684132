#ifndef CORPUS_READ_PACKING_H
#define CORPUS_READ_PACKING_H
/* How a file is packed, and the libraries that unpack it, all behind the same three calls. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct { const char *in; size_t in_bytes; char *out; size_t out_bytes; } PackingWindow;    /* what is left of both */
typedef enum { PACKING_MORE, PACKING_END, PACKING_BROKEN } PackingStep;       /* END: of one member; more may follow */

typedef struct {
    const char *name, *ending, *magic;                      /* "gzip", ".gz", what a file begins with */
    void       *(*open) (void);                             /* NULL: no memory */
    PackingStep (*step) (void *state, PackingWindow *window, const char **why);    /* takes in, gives out */
    bool        (*again)(void *state);                      /* ready for the next member */
    void        (*close)(void *state);
    /* Where at or behind `from` a member seems to begin, told by its first bytes, all of which are here; -1: nowhere.
     * NULL: those are too few to tell */
    int64_t     (*start)(const char *text, size_t bytes, size_t from);
} Packing;

const Packing *packing_by_ending(const char *path);                 /* NULL: plain */
const Packing *packing_by_magic (const char *text, size_t bytes);   /* NULL: plain */
/* For who takes a file as it stands, and would take packed bytes for a text: BAD_FILE where its name and its bytes say that it is packed */
Status packing_none(const char *path, const char *text, size_t bytes);
#endif
