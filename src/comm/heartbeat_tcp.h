#ifndef COMM_HEARTBEAT_TCP_H
#define COMM_HEARTBEAT_TCP_H
/* TCP connections of the watchdog: rank 0 to the process of each other rank. Nobody listens once all are connected, and a
 * connection opens only with the cookie that rank 0 gave out over the world comm. */
#include "comm/comm_internal.h"

typedef enum { FRAME_PROGRESS = 1, FRAME_GOODBYE, FRAME_STOP } HeartbeatFrameKind;
/* victim: of FRAME_STOP, the rank whose process is to be killed by whoever shares its host; -1: none */
typedef struct { int32_t kind, rank, members, victim; RankProgress progress; } HeartbeatFrame;      /* then `members` ranks */

/* Collective. fd[world->size]: at rank 0 the connection to each other rank, elsewhere fd[0]; others are -1. */
Status heartbeat_tcp_open(int *fd, Comm *world, bool one_host);
/* Never waits; a broken connection is seen by heartbeat_tcp_recv, which is false where the other end is gone or talks nonsense. */
void   heartbeat_tcp_send(int fd, const HeartbeatFrame *frame, const int *members);
bool   heartbeat_tcp_recv(int fd, HeartbeatFrame *frame, int *members, int room);
void   heartbeat_tcp_leave(int fd);                     /* after a goodbye: closes when the other end has read it */
#endif
