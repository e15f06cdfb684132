/* The items of the pipeline are pieces of the file: a thread that has nothing to unpack cuts the next one, one thread at a time. */
#include "corpus/read/stream_ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/ordered_pipeline.h"
#include "corpus/read/buffer.h"

enum { READ_ONCE = 256 << 10, START_BYTES = 16, PIECES_MORE = 2, TEXT_FIRST = 1 << 20 };

typedef struct { Buffer packed, text; bool unpacked; } Piece;

struct Ahead {
    FILE            *file;
    const Packing   *packing;
    OrderedPipeline *pipeline;
    int              pieces;
    Piece           *piece;             /* one a slot */
    Buffer           rest;              /* read behind the last cut; this and what is below is for the thread that cuts */
    bool             ended;
    int              error;             /* read by the caller behind the end */
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
static bool piece_cut(void *context, int slot, int64_t *weight)
{
    Ahead  *a = context;
    Buffer *packed = &a->piece[slot].packed, own = *packed;
    (void)weight;
    *packed = a->rest;
    a->rest = own;
    a->rest.bytes = 0;
    for (int64_t from = PIECE_LEAST; ; more_read(a, packed)) {         /* not before it is needed: else the rest would grow */
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
static bool members_unpack(Piece *s, const Packing *packing, void *state)
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

static void piece_unpack(void *context, int worker, int slot)
{
    const Ahead *a = context;
    Piece *s = &a->piece[slot];
    (void)worker;
    bool begins = a->packing->start(s->packed.text, (size_t)s->packed.bytes, 0) == 0;
    void *state = begins ? a->packing->open() : NULL;
    s->unpacked = state && members_unpack(s, a->packing, state);
    if (state) a->packing->close(state);
}

/* ---- the reader's side ---- */

bool ahead_next(Ahead *a, AheadPiece *piece)
{
    int slot = ordered_pipeline_next(a->pipeline);
    if (slot < 0) return false;
    const Piece *s = &a->piece[slot];
    *piece = (AheadPiece){ s->packed.text, s->unpacked ? s->text.text : NULL, (size_t)s->packed.bytes, (size_t)s->text.bytes };
    return true;
}

int ahead_error(const Ahead *a) { return a->error; }

Status ahead_open(Ahead **ahead, FILE *file, const Packing *packing, const char *first, size_t bytes, int threads)
{
    Ahead *a = calloc(1, sizeof *a);
    *ahead = NULL;
    if (!a) return fail(NO_MEMORY, "no memory to unpack ahead");
    *a = (Ahead){ .file = file, .packing = packing, .pieces = threads + PIECES_MORE };
    a->piece = calloc((size_t)a->pieces, sizeof *a->piece);
    Status status = a->piece ? buffer_add(&a->rest, first, (int64_t)bytes) : fail(NO_MEMORY, "no memory to unpack ahead");
    OrderedPipelinePlan plan = { .what = "unpacking ahead", .workers = threads, .slots = a->pieces, .context = a,
                                 .fill = piece_cut, .work = piece_unpack };
    if (status == OK)                           /* fewer threads are slower, and good enough */
        do status = ordered_pipeline_open(&a->pipeline, &plan);
        while (status != OK && (plan.workers /= 2));
    if (status == OK) *ahead = a;
    else              ahead_close(a);
    return status;
}

void ahead_close(Ahead *a)
{
    if (!a) return;
    ordered_pipeline_close(a->pipeline);
    for (int i = 0; a->piece && i < a->pieces; i++) {
        buffer_free(&a->piece[i].packed);
        buffer_free(&a->piece[i].text);
    }
    buffer_free(&a->rest);
    free(a->piece);
    free(a);
}
