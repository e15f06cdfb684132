#ifndef SERVE_FAIR_QUEUE_H
#define SERVE_FAIR_QUEUE_H
/* Requests that wait, in turn of their clients: the next text is that of the client with the fewest texts
 * that run, round robin between those with as many, first come, first served for one client. No client waits
 * without a text that runs while another one has several: one of these is preempted, and waits again before
 * its client's others. Where the queue has no room the client with the most waiting texts loses its newest
 * request, and so on until there is room (longest queue drop), so that one client that floods the server
 * keeps none of the others out, whatever the sizes of their requests. Not thread-safe. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { CLIENT_NAME = 64 };

typedef struct FairClient FairClient;
/* Part of what waits. texts: that have not been taken; taken: of them at least one was. also_dropped: the
 * next one of the list of fair_queue_put */
typedef struct FairEntry {
    struct FairEntry *next, *before, *also_dropped;
    FairClient       *client;              /* NULL: it is in no queue */
    int64_t           texts;
    bool              taken;
} FairEntry;

/* turn: a ring of clients that have texts here, or some that run; texts: that wait */
typedef struct { FairClient *turn; int64_t texts, most; } FairQueue;

/* Adds `entry` of `texts` texts. *dropped: the entries that had to leave for it, linked by also_dropped;
 * NULL: none. false: the queue is full, and this client's share of it the largest, or there is no memory;
 * nothing has left then. */
bool fair_queue_put(FairQueue *queue, FairEntry *entry, int64_t texts, const char *client,
                    FairEntry **dropped);
/* Takes one text of the entry whose turn it is, which leaves with its last text; NULL: nobody waits. It runs
 * for *client until fair_queue_end or fair_queue_return. */
FairEntry *fair_queue_take(FairQueue *queue, FairClient **client);
void fair_queue_end(FairQueue *queue, FairClient *client);
/* The text of an entry of this client no longer runs, and waits again. */
void fair_queue_return(FairQueue *queue, FairEntry *entry, FairClient *client);
/* The client of which a text is to be preempted, since more others wait without one that runs than `places`
 * are free; NULL: none */
FairClient *fair_queue_preempt(const FairQueue *queue, int64_t places);
/* Clients of texts that run are forgotten. */
void fair_queue_close(FairQueue *queue);
/* Does nothing where the entry is not in the queue. */
void fair_queue_remove(FairQueue *queue, FairEntry *entry);
#endif
