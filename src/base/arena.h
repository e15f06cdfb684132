#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/* Memory named by lifetime. An arena is one allocation made at start; a dry arena only counts, so the bytes a dry run
 * reports are the bytes the real run takes. Pushes are aligned to 256 bytes. */
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
    int         tags;
    ArenaTag    tag[ARENA_TAGS];          /* the memory table; names beyond the table are counted in the last one */
    struct ArenaPush *log;                /* what lives, in order, so that a reset knows whose bytes fall */
    size_t      logs;
} Arena;

void   arena_dry  (Arena *a, const char *name);                /* counts, never gives memory */
Status arena_open (Arena *a, const char *name, size_t bytes);  /* one allocation, touched once; NO_MEMORY names arena and bytes */
void   arena_close(Arena *a);

void  *arena_push (Arena *a, const char *what, size_t bytes);  /* NULL when dry; a full arena is a CHECK. `what` is a literal */
size_t arena_mark (const Arena *a);
void   arena_reset(Arena *a, size_t mark);                     /* debug builds poison what is given back */
#endif
