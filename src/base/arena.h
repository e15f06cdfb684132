#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/* Memory named by lifetime. An arena is one allocation made at start; a dry arena only counts, so the bytes a dry run
 * reports are the bytes the real run takes. Pushes are aligned to 256 bytes. Beside its bytes an arena keeps a log of what
 * lives, 16 bytes a push, on the heap: it doubles when full, so steps that push no more than an earlier one allocate nothing. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

enum { ARENA_TAGS = 64, ARENA_ALIGN = 256 };
typedef struct { const char *name; size_t bytes, peak; } ArenaTag;   /* live bytes under one name, and their highest */

typedef struct {
    const char *name;
    char       *base;                     /* NULL: dry, or not yet opened */
    size_t      used, peak, size;         /* bytes; size counts nothing in a dry arena */
    bool        dry;
    bool        within;                   /* base is a part of another arena, which owns it */
    int         tags;
    ArenaTag    tag[ARENA_TAGS];          /* the memory table; names beyond the table are counted in the last one */
    struct ArenaPush *log;                /* what lives, in order, so that a reset knows whose bytes fall */
    size_t      logs, log_size;           /* entries in use, entries there is memory for */
} Arena;

void   arena_dry  (Arena *a, const char *name);                /* counts, never gives memory */
Status arena_open (Arena *a, const char *name, size_t bytes);  /* one allocation, touched once; NO_MEMORY names arena and bytes */
/* A part of `parent`, pushed on it as `what`, with a mark and a peak of its own; dry where parent is. Close it before parent. */
void   arena_open_within(Arena *a, const char *name, Arena *parent, const char *what, size_t bytes);
void   arena_close(Arena *a);                                  /* frees the log too, which a dry arena has as well */

void  *arena_push (Arena *a, const char *what, size_t bytes);  /* NULL when dry; a full arena is a CHECK. `what` is a literal */
size_t arena_mark (const Arena *a);
void   arena_reset(Arena *a, size_t mark);                     /* debug builds poison what is given back */
#endif
