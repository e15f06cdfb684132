#ifndef PARALLEL_CHANNELS_H
#define PARALLEL_CHANNELS_H
/* Channels between pipeline stages: a communicator of two ranks for each neighbour, kind of message
 * (activations or gradients) and direction that the schedule's shape uses. So the order in which one kind of
 * message is posted never waits for another: a transport that executes the requests of a communicator one
 * after the other, as NCCL does, cannot deadlock (schedule_check proves it). With stages in a loop these are
 * at most four channels on a rank, v-shaped eight. */
#include "comm/comm.h"
#include "parallel/schedule.h"

enum { CHANNELS_MAX = 8 };
typedef struct { Comm *comm; int peer; bool gradients, out; } Channel;    /* peer: the other stage */
typedef struct { int count; Channel channel[CHANNELS_MAX]; } Channels;

/* Collective over the ranks of a pipeline; each rank meets its two neighbours only, whatever the number of
 * stages. Their names are "pp forward 0-1", "pp backward 1-0". */
void  channels_open (Channels *channels, Comm *world, const Mesh *mesh, const ScheduleShape *shape);
void   channels_close(Channels *channels);
/* The channel of a message's row: RECV, SEND, RECV_GRAD, SEND_GRAD. A CHECK stops the job where none is. */
Comm  *channels_find (const Channels *channels, const ScheduleRow *row);
#endif
