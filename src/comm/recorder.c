/* The ring of issued calls. */
#include "comm/recorder.h"

#include <string.h>

void recorder_open(Recorder *r, RecordedComplete *is_complete, void *transport)
{
    *r = (Recorder){ .is_complete = is_complete, .transport = transport };
    pthread_mutex_init(&r->lock, NULL);
}

void recorder_close(Recorder *r) { pthread_mutex_destroy(&r->lock); }

static RecordedCall *recorded(Recorder *r, long number) { return &r->call[number % RECORDED]; }

static void skip_complete(Recorder *r)
{
    while (r->first < r->next && recorded(r, r->first)->complete) r->first++;
}

long recorder_begin(Recorder *r, const RecordedCall *call)
{
    long number = -1;
    pthread_mutex_lock(&r->lock);
    if (r->next - r->first == RECORDED && r->is_complete) {
        RecordedCall *oldest = recorded(r, r->first);
        oldest->complete = r->is_complete(r->transport, oldest->call);
    }
    skip_complete(r);
    if (r->next - r->first < RECORDED) *recorded(r, number = r->next++) = *call;
    pthread_mutex_unlock(&r->lock);
    return number;
}

void recorder_end(Recorder *r, long number)
{
    pthread_mutex_lock(&r->lock);
    if (number >= r->first && !r->is_complete) recorded(r, number)->complete = true;
    pthread_mutex_unlock(&r->lock);
}

void recorder_leave(Recorder *r, const char *comm)
{
    pthread_mutex_lock(&r->lock);
    for (long k = r->first; k < r->next; k++)
        if (recorded(r, k)->comm == comm) recorded(r, k)->complete = true;
    pthread_mutex_unlock(&r->lock);
}

bool recorder_oldest(Recorder *r, int64_t now, RecordedFound *found, void *context)
{
    bool any = false;
    pthread_mutex_lock(&r->lock);
    for (skip_complete(r); r->is_complete && r->first < r->next && !any; skip_complete(r)) {
        RecordedCall *oldest = recorded(r, r->first);
        oldest->complete = r->is_complete(r->transport, oldest->call);
        if (oldest->complete) r->moved = now;
        else any = true;
        if (any) found(context, oldest, oldest->begun > r->moved ? oldest->begun : r->moved);
    }
    pthread_mutex_unlock(&r->lock);
    return any;
}
