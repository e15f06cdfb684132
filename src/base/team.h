#ifndef BASE_TEAM_H
#define BASE_TEAM_H
/* A thread pool that belongs to one rank and runs parallel loops (team_for) and work in phases (team_run).
 * The chunks of a loop depend on its arguments and never on the number of threads, and a chunk writes only
 * its own outputs, so that results are bitwise the same for any number of threads. */
#include <stdint.h>
#include "base/status.h"

typedef struct Team Team;
/* Processes the items [begin, end). Several threads call it at the same time, with chunks that do not
 * overlap. */
typedef void TeamBody(void *context, int64_t begin, int64_t end);
/* What one of `threads` threads does; thread 0 is the caller's. */
typedef void TeamThreadBody(void *context, int thread, int threads);

/* Starts threads - 1 threads; the caller is the last one. BAD_OPTION when threads < 1, NO_MEMORY when
 * memory or a thread is refused. *team is NULL on failure. */
Status team_open (Team **team, int threads);
/* Joins the threads and frees the pool. NULL is allowed. */
void   team_close(Team *team);
int    team_size (const Team *team);
/* Calls body(context, begin, end) for chunks of `chunk` items that cover [0, n), and returns when all are
 * done. What the caller wrote before is visible to body, and what body wrote is visible to the caller
 * afterwards. Not reentrant: body must not call team_for with the same pool, and one thread at a time may
 * call it. */
void   team_for  (Team *team, int64_t n, int64_t chunk, TeamBody *body, void *context);
/* Calls body(context, thread, threads) once on every thread of the pool, at the same time, and returns when
 * all have returned. For work in several phases that share memory: the threads separate the phases by
 * team_barrier. Memory is visible and nesting is forbidden as for team_for. */
void   team_run  (Team *team, TeamThreadBody *body, void *context);
/* Before a team_run: the items [0, n) that its threads then claim one by one. Each thread has adjacent items,
 * which it gets in order, so that what it reads next is what it has prefetched; when they are done it gets
 * those that others have not begun. Which thread runs an item varies. */
void   team_share(Team *team, int64_t n);
/* The next item for this thread of the team_run; -1: none is left. */
int64_t team_claim(Team *team, int thread);
/* Returns when every thread of the running team_run has called it. What a thread wrote before is visible to
 * all afterwards. All threads must call it equally often. */
void   team_barrier(Team *team);
/* From now on the rank's own thread, while it works in a loop of the pool, calls poll(context) now and
 * then, at most once in some 50 us: for what has to progress beside long loops. poll must not use the pool.
 * NULL: ends it. */
void   team_poll_hook(Team *team, void (*poll)(void *context), void *context);
/* Calls it, if it is due: thread 0 of a team_run does so where its loops are long. */
void   team_poll (Team *team);
/* The number of cores in this process's affinity mask, which is what a scheduler or taskset grants it. */
int    team_cores(void);
#endif
