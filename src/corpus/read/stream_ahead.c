/* Pieces go round in slots. A thread that has nothing to do cuts the next piece from the file, one at a time, and unpacks
 * it; the reader takes them in the order they were cut.                                                               */
#include "corpus/read/stream_ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/read/buffer.h"

enum { READ_ONCE = 256 << 10, START_BYTES = 16, SLOTS_MORE = 2, TEXT_FIRST = 1 << 20 };

typedef enum { EMPTY, CUT, DONE } UnpackState;
typedef struct { UnpackState state; Buffer packed, text; bool unpacked; } UnpackSlot;

struct Ahead {
    FILE           *file;
    const Packing  *packing;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    pthread_t      *thread;
    int             started, slots;
    UnpackSlot           *slot;
    int64_t         cut, taken;         /* pieces that were cut, that are done with; slot k % slots has piece k */
    bool            given;              /* piece `taken` is with the reader */
    bool            cutting;            /* a thread is at the file, and alone has what stands below */
    bool            finished, closing;
    Buffer          rest;               /* read behind the last cut */
    bool            ended;
    int             error;
};

/* ---- cutting ---- */

static bool more_read(Ahead *a, Buffer *packed)
{
    if (buffer_room(packed, READ_ONCE) != OK) {
        a->error = ENOMEM;
        a->ended = true;
        return false;
    }
    size_t got = fread(packed->text + packed->bytes, 1, READ_ONCE, a->file);
    packed->bytes += (int64_t)got;
    a->ended = got < READ_ONCE;
    if (ferror(a->file)) a->error = errno;
    return got > 0;
}

/* What stands behind `bytes` is for the next piece. */
static void rest_leave(Ahead *a, Buffer *packed, int64_t bytes)
{
    a->rest.bytes = 0;
    if (buffer_add(&a->rest, packed->text + bytes, packed->bytes - bytes) != OK) {
        a->error = ENOMEM;
        a->ended = true;
    }
    packed->bytes = bytes;
}

/* Up to where the next member seems to begin; of a member that is too long a part, without its last bytes, which may be
 * the first of a beginning. False: nothing is left. */
static bool piece_cut(Ahead *a, Buffer *packed)
{
    Buffer own = *packed;
    *packed = a->rest;
    a->rest = own;
    a->rest.bytes = 0;
    for (int64_t from = PIECE_LEAST; ; ) {
        if (!a->ended) more_read(a, packed);
        int64_t start = packed->bytes > from ? a->packing->start(packed->text, (size_t)packed->bytes, (size_t)from) : -1;
        if (start >= 0) {
            rest_leave(a, packed, start);
            return true;
        }
        if (a->ended) return packed->bytes > 0;
        if (packed->bytes >= PIECE_MOST) {
            rest_leave(a, packed, packed->bytes - START_BYTES);
            return true;
        }
        if (packed->bytes - START_BYTES > from) from = packed->bytes - START_BYTES;
    }
}

/* ---- unpacking ---- */

/* True where the piece is whole members and nothing else */
static bool members_unpack(UnpackSlot *s, const Packing *packing, void *state)
{
    const char *why;
    PackingWindow w = { .in = s->packed.text, .in_bytes = (size_t)s->packed.bytes };
    PackingStep step = PACKING_MORE;
    s->text.bytes = 0;
    for (;;) {
        if (s->text.bytes >= TEXT_MOST || buffer_room(&s->text, TEXT_FIRST) != OK) return false;
        size_t room = (size_t)(s->text.room - s->text.bytes), before = w.in_bytes;
        w.out = s->text.text + s->text.bytes;
        w.out_bytes = room;
        step = packing->step(state, &w, &why);
        s->text.bytes += (int64_t)(room - w.out_bytes);
        if (step == PACKING_BROKEN) return false;
        if (step == PACKING_END && !w.in_bytes) return true;
        if (step == PACKING_END && !packing->again(state)) return false;
        if (step == PACKING_MORE && before == w.in_bytes && w.out_bytes) return false;      /* wants what is not here */
    }
}

static void piece_unpack(const Ahead *a, UnpackSlot *s)
{
    bool begins = a->packing->start(s->packed.text, (size_t)s->packed.bytes, 0) == 0;
    void *state = begins ? a->packing->open() : NULL;
    s->unpacked = state && members_unpack(s, a->packing, state);
    if (state) a->packing->close(state);
}

static void *worker(void *argument)
{
    Ahead *a = argument;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->closing && !a->finished && (a->cutting || a->slot[a->cut % a->slots].state != EMPTY))
            pthread_cond_wait(&a->change, &a->lock);
        if (a->closing || a->finished) break;
        UnpackSlot *s = &a->slot[a->cut % a->slots];
        a->cutting = true;
        pthread_mutex_unlock(&a->lock);
        bool any = piece_cut(a, &s->packed);
        pthread_mutex_lock(&a->lock);
        a->cutting  = false;
        a->finished = !any;
        a->cut     += any;
        s->state    = any ? CUT : EMPTY;
        pthread_cond_broadcast(&a->change);
        if (!any) break;
        pthread_mutex_unlock(&a->lock);
        piece_unpack(a, s);
        pthread_mutex_lock(&a->lock);
        s->state = DONE;
        pthread_cond_broadcast(&a->change);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- the reader's side ---- */

bool ahead_next(Ahead *a, AheadPiece *piece)
{
    pthread_mutex_lock(&a->lock);
    UnpackSlot *s = &a->slot[a->taken % a->slots];
    if (a->given) {
        s->state = EMPTY;
        s = &a->slot[++a->taken % a->slots];
        pthread_cond_broadcast(&a->change);
    }
    while (s->state != DONE && !(a->finished && a->taken == a->cut)) pthread_cond_wait(&a->change, &a->lock);
    bool any = a->given = s->state == DONE;
    pthread_mutex_unlock(&a->lock);
    if (any) *piece = (AheadPiece){ s->packed.text, s->unpacked ? s->text.text : NULL, (size_t)s->packed.bytes, (size_t)s->text.bytes };
    return any;
}

int ahead_error(const Ahead *a) { return a->error; }

/* Signals are for the thread that asked. */
static void threads_start(Ahead *a, int threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (a->started < threads && !pthread_create(&a->thread[a->started], NULL, worker, a)) a->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

Status ahead_open(Ahead **ahead, FILE *file, const Packing *packing, const char *first, size_t bytes, int threads)
{
    Ahead *a = calloc(1, sizeof *a);
    *ahead = NULL;
    if (!a) return fail(NO_MEMORY, "no memory to unpack ahead");
    *a = (Ahead){ .file = file, .packing = packing, .slots = threads + SLOTS_MORE };
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->change, NULL);
    a->slot   = calloc((size_t)a->slots, sizeof *a->slot);
    a->thread = calloc((size_t)threads, sizeof *a->thread);
    if (a->slot && a->thread && buffer_add(&a->rest, first, (int64_t)bytes) == OK) threads_start(a, threads);
    if (a->started) {
        *ahead = a;
        return OK;
    }
    ahead_close(a);
    return fail(NO_MEMORY, "no memory, or no thread, to unpack ahead");
}

void ahead_close(Ahead *a)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->closing = true;
    pthread_cond_broadcast(&a->change);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->started; i++) pthread_join(a->thread[i], NULL);
    for (int i = 0; a->slot && i < a->slots; i++) {
        buffer_free(&a->slot[i].packed);
        buffer_free(&a->slot[i].text);
    }
    buffer_free(&a->rest);
    pthread_cond_destroy(&a->change);
    pthread_mutex_destroy(&a->lock);
    free(a->slot);
    free(a->thread);
    free(a);
}
