#ifndef COMM_BROADCAST_H
#define COMM_BROADCAST_H
/* Bytes that one rank has read and all need, such as a file of options: a file that each of many ranks opened
 * would be that many requests to one server of a parallel file system. */
#include "comm/agree.h"

/* Collective over world: rank 0's bytes on every rank, along a binomial tree of log2(ranks) levels. *data is
 * rank 0's own there; on other ranks it is set, and like rank 0's freed by the caller. mine: whether this
 * rank could read what it should. A failure of one rank is returned on all, as by agree(), and *data is as it
 * was. On one rank and in a dry run it returns `mine`. */
Status broadcast_bytes(Comm *world, Status mine, char **data, size_t *bytes);
/* The same before the run has a world communicator (agree_at_start). */
Status broadcast_bytes_at_start(Transport *transport, Status mine, char **data, size_t *bytes);
/* As many bytes on every rank, rank 0's; nothing is agreed on or allocated. */
void broadcast_same(Comm *world, void *data, size_t bytes);
#endif
