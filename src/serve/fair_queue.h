#ifndef SERVE_FAIR_QUEUE_H
#define SERVE_FAIR_QUEUE_H
/* Requests that wait, in turn of their clients: round robin between clients, first come, first served for one
 * client. Where the queue is full the client with the most waiting texts loses its newest request (longest
 * queue drop), so that one client that floods the server keeps none of the others out. Not thread-safe. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { CLIENT_NAME = 64 };

typedef struct FairClient FairClient;
/* Part of what waits. texts: that have not been taken; taken: of them at least one was */
typedef struct FairEntry {
    struct FairEntry *next, *before;
    FairClient       *client;              /* NULL: it is in no queue */
    int64_t           texts;
    bool              taken;
} FairEntry;

/* turn: a ring of clients; NULL: nobody waits */
typedef struct { FairClient *turn; int64_t texts, most; } FairQueue;

/* Adds `entry` of `texts` texts. *dropped: an entry that had to leave for it, NULL: none. false: the queue is
 * full, and this client's share of it the largest, or there is no memory. */
bool fair_queue_put(FairQueue *queue, FairEntry *entry, int64_t texts, const char *client,
                    FairEntry **dropped);
/* Takes one text of the entry whose turn it is, which leaves with its last text; NULL: nobody waits. */
FairEntry *fair_queue_take(FairQueue *queue);
/* Does nothing where the entry is not in the queue. */
void fair_queue_remove(FairQueue *queue, FairEntry *entry);
#endif
