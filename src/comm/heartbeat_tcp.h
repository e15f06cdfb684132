#ifndef COMM_HEARTBEAT_TCP_H
#define COMM_HEARTBEAT_TCP_H
/* TCP connections of the watchdog in the form of a star: from rank 0 to the process of each other rank.
 * They are apart from MPI, which only the rank's own thread may call and which a blocked rank never
 * leaves. Rank 0 stops listening once all are connected. Both ends prove that they know a random key that
 * was distributed over the world comm (comm/tcp/hello.h), so that other programs on the network cannot end
 * the job. */
#include "comm/comm_internal.h"

typedef enum { FRAME_PROGRESS = 1, FRAME_GOODBYE, FRAME_STOP } HeartbeatFrameKind;
/* Followed by `members` world ranks (int), for which the sender waits. victim: of FRAME_STOP, the rank
 * whose frozen process is killed by the processes on its host; -1: none. */
typedef struct { int32_t kind, rank, members, victim; RankProgress progress; } HeartbeatFrame;

/* Collective over the world. fd[world->size]: rank 0 gets a connection to each other rank, the others get
 * fd[0] to rank 0; all other entries are -1. The caller owns the descriptors. On all ranks: BAD_OPTION where
 * rank 0's limit of descriptors is too small, IO_FAILED where a rank cannot connect, or has not done so 30 s
 * after the one before it. */
Status heartbeat_tcp_open(int *fd, Comm *world, bool one_host);
/* Of a connection: what the system has not taken yet of frames that were begun, or that must arrive.
 * Zeroed at first; the memory is freed by heartbeat_tcp_leave. */
typedef struct { char *bytes; size_t count, room; } UnsentBytes;
/* Never blocks, because a dead reader must not stop the writer. What is unsent is sent first, so that frames
 * stay whole. While the reader does not read, a FRAME_PROGRESS is dropped, since a later one replaces it;
 * the other kinds are kept. Errors are ignored: a broken connection is noticed by heartbeat_tcp_recv. One
 * thread at a time. */
void   heartbeat_tcp_send(int fd, UnsentBytes *unsent, const HeartbeatFrame *frame, const int *members);
/* Of a connection: the `count` bytes of a frame that have arrived, its head and the members' ranks. Zeroed
 * at first; the caller frees members. */
typedef struct { HeartbeatFrame frame; int *members; size_t count; int room; } ReceivedFrame;
typedef enum { RECEIVED_CLOSED, RECEIVED_INVALID, RECEIVED_PART, RECEIVED_FRAME } ReceivedState;
/* Never blocks, because one reader serves all ranks, and a rank that stops in the middle of a frame is
 * frozen and not dead. RECEIVED_FRAME: `received` holds a frame of rank `from`, whose members are ranks below
 * `size`, until the next call. RECEIVED_PART: the rest has not arrived. RECEIVED_CLOSED: the connection is
 * closed. RECEIVED_INVALID: the bytes are no such frame, and no other is found behind them. */
ReceivedState heartbeat_tcp_recv(int fd, ReceivedFrame *received, int from, int size);
/* Before the process ends: sends what is unsent on the `size` connections (-1: none), for 200 ms at most.
 * until_closed: also waits until the other ends are closed, and discards what they send. */
void   heartbeat_tcp_flush(const int *fd, UnsentBytes *unsent, int size, bool until_closed);
/* After a FRAME_GOODBYE: sends what is unsent, waits until the other end has read it, then closes. */
void   heartbeat_tcp_leave(int fd, UnsentBytes *unsent);
#endif
