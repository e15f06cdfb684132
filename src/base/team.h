#ifndef BASE_TEAM_H
#define BASE_TEAM_H
/* A small team of threads owned by one rank. Work is cut into fixed chunks (never by the number of threads), and a chunk
 * writes only what is its own: so results do not depend on how many threads there are. */
#include <stdint.h>
#include "base/status.h"

typedef struct Team Team;
typedef void TeamBody(void *context, int64_t begin, int64_t end);

Status team_open (Team **team, int threads);       /* threads >= 1; 1 starts none and runs in the caller */
void   team_close(Team *team);
int    team_size (const Team *team);
/* body(context, begin, end) for [0, n) in chunks of `chunk` items; returns when all are done. Not reentrant. */
void   team_for  (Team *team, int64_t n, int64_t chunk, TeamBody *body, void *context);
int    team_cores(void);                           /* cores this process may use */
#endif
