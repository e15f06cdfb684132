#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/* A stack allocator for memory of one lifetime. An arena is a single allocation made at start-up, so a
 * training step never allocates. A dry arena only counts bytes: the same code run on dry arenas reports
 * what the real run takes. An arena belongs to one rank and has no lock. Beside its bytes an arena keeps a
 * log of the live pushes on the heap, 16 bytes a push, which doubles when it is full. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"
#include "base/team.h"

/* Pushes are aligned to 256 bytes: a multiple of a cache line, and what GPU allocators guarantee. */
enum { ARENA_TAGS = 64, ARENA_ALIGN = 256 };

/* The memory pushed under one name, in bytes: what is live now, and the maximum that was live at once. */
typedef struct { const char *name; size_t bytes, peak; } ArenaTag;

/* Memory of a device, which the host cannot read. take: NULL where it is refused; give frees what was taken.
 * The caller's, and must outlive the arenas. */
typedef struct {
    void      *(*take)(void *context, size_t bytes);
    void       (*give)(void *context, void *memory);
    void        *context;
    const char  *where;                   /* for messages: "GPU 0" */
} ArenaMemory;

typedef struct {
    const char *name;                     /* for messages; the caller's, usually a literal */
    char       *base;                     /* of `size` bytes in the mapping; NULL: dry, or not yet opened */
    const ArenaMemory *memory;            /* base is memory of a device; NULL: of the host */
    void       *mapping;                  /* owned */
    size_t      mapped;                   /* bytes of it */
    size_t      used, peak, size;         /* bytes; size is 0 in a dry arena, which has no limit */
    bool        dry;
    bool        within;                   /* base is a part of another arena, which owns it */
    int         tags;                     /* entries of tag[] in use */
    ArenaTag    tag[ARENA_TAGS];          /* the last entry counts every name for which there is no other */
    struct ArenaPush *log;                /* the live pushes in order, by which a reset updates tag[] */
    size_t      logs, log_size;           /* entries in use; entries there is memory for */
} Arena;

/* Makes a dry arena: it counts and never returns memory. */
void   arena_dry  (Arena *a, const char *name);
/* Allocates `bytes`, in huge pages where the system gives them, and touches every page, so that no page fault
 * happens in a step. NO_MEMORY when refused. */
Status arena_open (Arena *a, const char *name, size_t bytes);
/* The same in the memory of a device, whose contents are not touched; memory NULL: of the host, touched by
 * the threads of the team that uses it: faster, and spread over the memory of their cores. */
Status arena_open_on(Arena *a, const char *name, size_t bytes, const ArenaMemory *memory, Team *team);
/* Bytes of this process, of all its arenas and other memory, that lie in huge pages; 0 where the system does
 * not tell. */
double arena_huge_bytes(void);
/* Makes an arena of a part of `parent`, pushed there as `what`, with a mark and a peak of its own; dry where
 * the parent is dry. It must be closed before the parent. */
void   arena_open_within(Arena *a, const char *name, Arena *parent, const char *what, size_t bytes);
/* Frees the memory and the log, which a dry arena has too. */
void   arena_close(Arena *a);

/* Returns `bytes` of memory under the name `what`, a string that outlives the arena (usually a literal);
 * NULL in a dry arena. The contents are not set. A push that does not fit is a programming error and stops
 * the job (CHECK). */
void  *arena_push (Arena *a, const char *what, size_t bytes);
/* A mark is the number of bytes in use. Resetting to it frees every later push at once. */
size_t arena_mark (const Arena *a);
/* `mark` must come from arena_mark; anything else is a CHECK. Of host memory debug builds fill the freed
 * bytes with NaN, and AddressSanitizer reports every later access to them. */
void   arena_reset(Arena *a, size_t mark);
#endif
