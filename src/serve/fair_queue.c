/* A ring of clients, each with a list of entries. */
#include "serve/fair_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct FairClient {
    char        name[CLIENT_NAME];
    FairClient *next, *before;             /* of the ring */
    FairEntry  *first, *last;
    int64_t     texts;                     /* of all its entries */
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
    if (!c->first) client_remove(q, c);
}

FairEntry *fair_queue_take(FairQueue *q)
{
    FairClient *c = q->turn;
    FairEntry *e = c ? c->first : NULL;
    if (!e) return NULL;
    q->turn = c->next;
    e->taken = true;
    e->texts--;
    c->texts--;
    q->texts--;
    if (e->texts == 0) fair_queue_remove(q, e);
    return e;
}

/* The newest entry, none of whose texts was taken, of the client with the most texts, where these are more
 * than `than`. */
static FairEntry *largest(const FairQueue *q, int64_t than)
{
    FairEntry *found = NULL;
    FairClient *c = q->turn;
    for (bool first = true; c && (first || c != q->turn); c = c->next, first = false) {
        bool whole = c->last && !c->last->taken;
        if (whole && c->texts > than) found = c->last, than = c->texts;
    }
    return found;
}

bool fair_queue_put(FairQueue *q, FairEntry *e, int64_t texts, const char *name, FairEntry **dropped)
{
    FairClient *c = client_find(q, name);
    *dropped = NULL;
    if (q->texts + texts > q->most) {
        FairEntry *out = largest(q, (c ? c->texts : 0) + texts);
        if (!out || q->texts - out->texts + texts > q->most) return false;
        *dropped = out;
        fair_queue_remove(q, out);
    }
    if (!c) c = client_add(q, name);
    if (!c) return false;
    *e = (FairEntry){ .client = c, .before = c->last, .texts = texts };
    if (c->last) c->last->next = e; else c->first = e;
    c->last   = e;
    c->texts += texts;
    q->texts += texts;
    return true;
}
