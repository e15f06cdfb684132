#ifndef COMM_STAR_H
#define COMM_STAR_H
/* TCP connections of the watchdog: rank 0 to the process of each other rank. Nobody listens once all are connected, and a
 * connection opens only with the cookie that rank 0 gave out over the world comm. */
#include "comm/inside.h"

typedef enum { STAR_PULSE = 1, STAR_GOODBYE, STAR_STOP } StarKind;
typedef struct { int32_t kind, rank, members, spare; Beat beat; } StarFrame;       /* then `members` ranks */

/* Collective. fd[world->size]: at rank 0 the connection to each other rank, elsewhere fd[0]; others are -1. */
Status star_open(int *fd, Comm *world, bool one_host);
/* Never waits; a broken connection is seen by star_recv, which is false where the other end is gone or talks nonsense. */
void   star_send(int fd, const StarFrame *frame, const int *members);
bool   star_recv(int fd, StarFrame *frame, int *members, int room);
void   star_leave(int fd);                     /* after a goodbye: closes when the other end has read it */
#endif
