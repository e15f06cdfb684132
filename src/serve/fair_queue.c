/* A ring of clients, each with a list of entries. */
#include "serve/fair_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct FairClient {
    char        name[CLIENT_NAME];
    FairClient *next, *before;             /* of the ring */
    FairEntry  *first, *last;
    int64_t     texts, running;            /* of all its entries; that were taken and run */
    /* while room is looked for: its newest entry that would stay, and the texts up to that one */
    FairEntry  *newest;
    int64_t     stay;
};

static FairClient *client_find(const FairQueue *q, const char *name)
{
    FairClient *c = q->turn;
    do {
        if (c && !strcmp(c->name, name)) return c;
        c = c ? c->next : NULL;
    } while (c != q->turn);
    return NULL;
}

/* A new client waits until all others have had a turn. */
static FairClient *client_add(FairQueue *q, const char *name)
{
    FairClient *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    snprintf(c->name, sizeof c->name, "%s", name);
    if (!q->turn) {
        q->turn = c->next = c->before = c;
        return c;
    }
    c->next   = q->turn;
    c->before = q->turn->before;
    c->before->next = q->turn->before = c;
    return c;
}

static void client_remove(FairQueue *q, FairClient *c)
{
    if (q->turn == c) q->turn = c->next == c ? NULL : c->next;
    c->next->before = c->before;
    c->before->next = c->next;
    free(c);
}

void fair_queue_close(FairQueue *q)
{
    while (q->turn) client_remove(q, q->turn);
}

static void client_leave(FairQueue *q, FairClient *c)
{
    if (!c->first && c->running == 0) client_remove(q, c);
}

void fair_queue_remove(FairQueue *q, FairEntry *e)
{
    FairClient *c = e->client;
    if (!c) return;
    if (e->before) e->before->next = e->next; else c->first = e->next;
    if (e->next)   e->next->before = e->before; else c->last = e->before;
    c->texts  -= e->texts;
    q->texts  -= e->texts;
    e->client  = NULL;
    e->next = e->before = NULL;
    client_leave(q, c);
}

FairEntry *fair_queue_take(FairQueue *q, FairClient **client)
{
    FairClient *c = NULL, *at = q->turn;
    if (q->texts == 0) return NULL;
    do {
        if (at->first && (!c || at->running < c->running)) c = at;
        at = at->next;
    } while (at != q->turn);
    FairEntry *e = c->first;
    q->turn = c->next;
    e->taken = true;
    e->texts--;
    c->texts--;
    q->texts--;
    c->running++;
    if (e->texts == 0) fair_queue_remove(q, e);
    *client = c;
    return e;
}

void fair_queue_end(FairQueue *q, FairClient *c)
{
    c->running--;
    client_leave(q, c);
}

/* An entry that is still here is its client's first one, or stands behind others that were preempted. */
void fair_queue_return(FairQueue *q, FairEntry *e, FairClient *c)
{
    if (!e->client) {
        *e = (FairEntry){ .client = c, .next = c->first, .taken = true };
        if (c->first) c->first->before = e; else c->last = e;
        c->first = e;
    }
    c->running--;
    e->texts++;
    c->texts++;
    q->texts++;
}

FairClient *fair_queue_preempt(const FairQueue *q, int64_t places)
{
    FairClient *most = q->turn, *c = q->turn;
    int64_t without = 0;
    if (q->texts == 0) return NULL;
    do {
        without += c->first && c->running == 0;
        if (c->running > most->running) most = c;
        c = c->next;
    } while (c != q->turn);
    return without > places && most->running > 1 ? most : NULL;
}

/* The client that would keep the most texts, where these are more than `than` and its newest entry is whole:
 * none of its texts was taken. */
static FairClient *largest(const FairQueue *q, int64_t than)
{
    FairClient *found = NULL, *c = q->turn;
    do {
        bool whole = c->newest && !c->newest->taken;
        if (whole && c->stay > than) found = c, than = c->stay;
        c = c->next;
    } while (c != q->turn);
    return found;
}

/* Entries that make room for `texts` of a client that has `share` texts with them: one after the
 * other the newest of the client that has the most. false: that is not enough. Nothing leaves here. */
static bool find_room(FairEntry **dropped, const FairQueue *q, int64_t texts, int64_t share)
{
    int64_t left = q->texts;
    FairClient *c = q->turn;
    *dropped = NULL;
    do {
        c->newest = c->last;
        c->stay   = c->texts;
        c = c->next;
    } while (c != q->turn);
    while (left + texts > q->most && (c = largest(q, share))) {
        FairEntry *e = c->newest;
        c->newest = e->before;
        c->stay  -= e->texts;
        left     -= e->texts;
        e->also_dropped = *dropped;
        *dropped = e;
    }
    return left + texts <= q->most;
}

/* Entries leave only for one that is sure to be added. */
bool fair_queue_put(FairQueue *q, FairEntry *e, int64_t texts, const char *name, FairEntry **dropped)
{
    FairClient *c = client_find(q, name);
    *dropped = NULL;
    if (!c) c = client_add(q, name);
    if (!c) return false;
    if (!find_room(dropped, q, texts, c->texts + texts)) {
        *dropped = NULL;
        client_leave(q, c);
        return false;
    }
    for (FairEntry *out = *dropped; out; out = out->also_dropped) fair_queue_remove(q, out);
    *e = (FairEntry){ .client = c, .before = c->last, .texts = texts };
    if (c->last) c->last->next = e; else c->first = e;
    c->last   = e;
    c->texts += texts;
    q->texts += texts;
    return true;
}
