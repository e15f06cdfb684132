/* An ordered pipeline whose items are pieces of the compressed file. A worker without a piece to
 * decompress cuts the next one from the file, one worker at a time, so no thread of its own is needed for
 * reading. */
#include "corpus/read/stream_ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/ordered_pipeline.h"

enum {
    READ_ONCE   = 256 << 10,  /* bytes of one read */
    START_BYTES = 16,         /* no less than a member's first bytes, by which `start` finds it */
    PIECES_MORE = 2,          /* pieces beyond one per thread: being cut, and being read by the caller */
    TEXT_FIRST  = 1 << 20     /* capacity by which a text grows */
};

struct Ahead {
    FILE            *file;
    const Codec   *codec;
    OrderedPipeline *pipeline;
    int              pieces;
    AheadPiece     *piece;     /* [pieces], one per slot of the pipeline */
    /* Read after the last cut. This and the fields below belong to the cutting thread. */
    Buffer           rest;
    bool             ended;
    int              error;     /* errno; the caller reads it only after the end of the pipeline */
};

/* ---- cutting ---- */

static bool read_more(Ahead *a, Buffer *compressed)
{
    if (buffer_reserve(compressed, READ_ONCE) != OK) {
        a->error = ENOMEM;
        a->ended = true;
        return false;
    }
    size_t got = fread(compressed->text + compressed->bytes, 1, READ_ONCE, a->file);
    compressed->bytes += (int64_t)got;
    a->ended = got < READ_ONCE;
    if (ferror(a->file)) a->error = errno;
    return got > 0;
}

/* Bytes after the first `bytes` belong to the next piece. */
static void rest_keep(Ahead *a, Buffer *compressed, int64_t bytes)
{
    a->rest.bytes = 0;
    if (buffer_add(&a->rest, compressed->text + bytes, compressed->bytes - bytes) != OK) {
        a->error = ENOMEM;
        a->ended = true;
    }
    compressed->bytes = bytes;
}

/* Fills a slot up to where the next member seems to begin. A member that is too long is cut inside, but
 * never within the last START_BYTES, which may be the beginning of the next member. False: the file has no
 * more bytes. */
static bool piece_cut(void *context, int slot, int64_t *weight)
{
    Ahead  *a = context;
    Buffer *compressed = &a->piece[slot].compressed, own = *compressed;
    (void)weight;
    *compressed = a->rest;
    a->rest = own;
    a->rest.bytes = 0;
    /* More is read only when no member was found in what there is; else `rest` would grow with each piece. */
    for (int64_t from = PIECE_LEAST; ; read_more(a, compressed)) {
        int64_t start = compressed->bytes > from
                        ? a->codec->start(compressed->text, (size_t)compressed->bytes, (size_t)from) : -1;
        if (start >= 0) {
            rest_keep(a, compressed, start);
            return true;
        }
        if (a->ended) return compressed->bytes > 0;
        if (compressed->bytes >= PIECE_MOST) {
            rest_keep(a, compressed, compressed->bytes - START_BYTES);
            return true;
        }
        if (compressed->bytes - START_BYTES > from) from = compressed->bytes - START_BYTES;
    }
}

/* ---- decompressing ---- */

/* Adds the text of the member that begins at w->in. False: it is no whole member. */
static bool member_decompress(Buffer *text, const Codec *codec, CodecWindow *w)
{
    const char *why;
    void       *state = codec->open(0);
    CodecStep   step  = state ? CODEC_MORE : CODEC_BROKEN;
    while (step == CODEC_MORE && text->bytes < TEXT_MOST && buffer_reserve(text, TEXT_FIRST) == OK) {
        size_t before = w->in_bytes;
        w->out       = text->text + text->bytes;
        w->out_bytes = (size_t)(text->capacity - text->bytes);
        step = codec->step(state, w, &why);
        text->bytes = text->capacity - (int64_t)w->out_bytes;
        if (step == CODEC_MORE && before == w->in_bytes && w->out_bytes) break;     /* the piece ends in it */
    }
    if (state) codec->close(state);
    return step == CODEC_END;
}

/* A piece is decompressed by itself only if it consists of whole members: then it does not depend on its
 * neighbours. The middle of a long member is decompressed by the reader in sequence. */
static void piece_decompress(void *context, int worker, int slot)
{
    const Ahead *a = context;
    AheadPiece  *s = &a->piece[slot];
    CodecWindow  w = { .in = s->compressed.text, .in_bytes = (size_t)s->compressed.bytes };
    (void)worker;
    s->text.bytes   = 0;
    s->decompressed = a->codec->start(w.in, w.in_bytes, 0) == 0;
    while (s->decompressed && w.in_bytes) s->decompressed = member_decompress(&s->text, a->codec, &w);
}

/* ---- the reader's side ---- */

const AheadPiece *ahead_next(Ahead *a)
{
    int slot = ordered_pipeline_next(a->pipeline);
    return slot < 0 ? NULL : &a->piece[slot];
}

int ahead_error(const Ahead *a) { return a->error; }

Status ahead_open(Ahead **ahead, FILE *file, const Codec *codec, const char *first, size_t bytes,
                  int threads)
{
    Ahead *a = calloc(1, sizeof *a);
    *ahead = NULL;
    if (!a) return fail(NO_MEMORY, "no memory to decompress ahead");
    *a = (Ahead){ .file = file, .codec = codec, .pieces = threads + PIECES_MORE };
    a->piece = calloc((size_t)a->pieces, sizeof *a->piece);
    Status status = a->piece ? buffer_add(&a->rest, first, (int64_t)bytes)
                              : fail(NO_MEMORY, "no memory to decompress ahead");
    OrderedPipelinePlan plan = { .what = "decompressing ahead", .workers = threads, .slots = a->pieces,
                                 .context = a, .fill = piece_cut, .work = piece_decompress };
    if (status == OK)                           /* fewer threads are slower, and acceptable */
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
        buffer_free(&a->piece[i].compressed);
        buffer_free(&a->piece[i].text);
    }
    buffer_free(&a->rest);
    free(a->piece);
    free(a);
}
