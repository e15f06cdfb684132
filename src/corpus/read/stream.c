#include "corpus/read/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/read/stream_ahead.h"

enum { CHUNK = 256 << 10, RATIO_OVER = 64 << 20 };

struct Stream {
    FILE          *file;
    char          *name;                        /* as messages say it */
    const Packing *packing;                     /* NULL: plain */
    void          *state;
    bool           inside;                      /* of a member that has begun and not ended */
    bool           hungry;                      /* it wants more bytes before it gives any */
    bool           ended;                       /* the file has no more bytes */
    int64_t        behind;                      /* bytes of the file read; those in chunk count */
    int64_t        ratio_most;
    int64_t        in_marked, out_since;        /* at the last look at the ratio; bytes that came out since */
    Status         broken;                      /* kept until what comes before it was given */
    char           why[512];
    Ahead         *ahead;                       /* NULL: one thread */
    const char    *text;                        /* of a piece that was unpacked ahead; */
    size_t         text_bytes;                  /*     what is left of it */
    const char    *in;                          /* chunk, or a piece */
    size_t         at, end;
    char           chunk[CHUNK];
};

/* Bytes of the packed file that were used, not only read */
static int64_t stream_used(const Stream *s) { return s->behind - (int64_t)(s->end - s->at); }

static Status stream_break(Stream *s, Status status)
{
    s->broken = status;
    snprintf(s->why, sizeof s->why, "%s", fail_text());
    return status;
}

/* ---- opening ---- */

/* A piece from ahead counts as used, or is unpacked here: within a member, and where it could not be unpacked alone. */
static Status piece_fill(Stream *s)
{
    AheadPiece piece = { 0 };
    s->ended   = !ahead_next(s->ahead, &piece);
    s->in      = s->ended ? s->chunk : piece.packed;
    s->end     = piece.packed_bytes;
    s->behind += (int64_t)piece.packed_bytes;
    bool ready = piece.text && !s->inside;
    s->at      = ready ? s->end : 0;
    s->text    = ready ? piece.text : NULL;
    s->text_bytes = ready ? piece.text_bytes : 0;
    if (!s->ended || !ahead_error(s->ahead)) return OK;
    return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %s", s->name, s->behind, strerror(ahead_error(s->ahead)));
}

static Status file_read(Stream *s, char *to, size_t room, size_t *got)
{
    *got = fread(to, 1, room, s->file);
    s->behind += (int64_t)*got;
    s->ended   = *got < room;
    if (!ferror(s->file)) return OK;
    return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %s", s->name, s->behind, strerror(errno));
}

static Status chunk_fill(Stream *s)
{
    if (s->ahead) return piece_fill(s);
    s->at = 0;
    s->in = s->chunk;
    return file_read(s, s->chunk, CHUNK, &s->end);
}

Status stream_of(Stream **stream, FILE *file, const char *name, const Packing *packing, int64_t ratio_most)
{
    Stream *s = calloc(1, sizeof *s);
    *stream = NULL;
    if (s) *s = (Stream){ .file = file, .name = strdup(name), .packing = packing, .ratio_most = ratio_most };
    if (s) s->in = s->chunk;
    if (s && packing) s->state = packing->open();
    if (s && s->name && (!packing || s->state)) {
        *stream = s;
        return OK;
    }
    if (s) stream_close(s);
    else if (file != stdin) fclose(file);
    return fail(NO_MEMORY, "%s: no memory to read it", name);
}

static Status standard_open(Stream **stream, int64_t ratio_most)
{
    TRY(stream_of(stream, stdin, "standard input", NULL, ratio_most));
    Stream *s = *stream;
    Status status = chunk_fill(s);
    if (status == OK) s->packing = packing_by_magic(s->chunk, s->end);
    if (s->packing && !(s->state = s->packing->open())) {
        s->packing = NULL;
        status = fail(NO_MEMORY, "standard input: no memory to read it");
    }
    if (status == OK) return OK;
    stream_close(s);
    *stream = NULL;
    return status;
}

Status stream_open(Stream **stream, const char *path, int64_t ratio_most)
{
    *stream = NULL;
    if (!strcmp(path, "-")) return standard_open(stream, ratio_most);
    FILE *file = fopen(path, "rb");
    if (!file) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0);             /* the chunk is the buffer */
    return stream_of(stream, file, path, packing_by_ending(path), ratio_most);
}

Status stream_ahead(Stream *s, int threads)
{
    if (threads <= 1 || !s->packing || !s->packing->start) return OK;
    TRY(ahead_open(&s->ahead, s->file, s->packing, s->in + s->at, s->end - s->at, threads));
    s->behind -= (int64_t)(s->end - s->at);
    s->end = s->at = 0;
    s->ended = false;
    return OK;
}

void stream_close(Stream *s)
{
    if (!s) return;
    ahead_close(s->ahead);
    if (s->state) s->packing->close(s->state);
    if (s->file != stdin) fclose(s->file);
    free(s->name);
    free(s);
}

int64_t stream_behind(const Stream *s) { return stream_used(s); }

/* ---- reading ---- */

/* A stretch at a time, so that a bomb behind honest text is seen as well */
static Status ratio_check(Stream *s, size_t out)
{
    s->out_since += (int64_t)out;
    if (s->out_since < RATIO_OVER) return OK;
    int64_t in = stream_used(s) - s->in_marked;
    if (s->ratio_most && s->out_since / s->ratio_most > in)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": %" PRId64 " bytes unpack to %" PRId64 ", more than %" PRId64
                    " times as much: a bomb? --max-ratio 0 takes any", s->name, s->in_marked, in, s->out_since, s->ratio_most);
    s->in_marked += in;
    s->out_since  = 0;
    return OK;
}

static Status member_step(Stream *s, char **out, size_t *room)
{
    const char   *why = NULL;
    PackingWindow w = { s->in + s->at, s->end - s->at, *out, *room };
    PackingStep   step = s->packing->step(s->state, &w, &why);
    size_t        taken = s->end - s->at - w.in_bytes, given = *room - w.out_bytes;
    s->inside = s->inside || taken;
    s->at += taken;
    *out   = w.out;
    *room  = w.out_bytes;
    s->hungry = *room > 0;
    if (step == PACKING_BROKEN)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": not %s, or damaged: %s", s->name, stream_used(s), s->packing->name, why);
    if (step == PACKING_END) {
        s->inside = false;
        if (!s->packing->again(s->state)) return fail(NO_MEMORY, "%s: no memory to read on", s->name);
    } else if (s->inside && s->ended && s->at == s->end && *room) {
        return fail(BAD_FILE, "%s: byte %" PRId64 ": the file ends in the middle of its %s data; copy it again",
                    s->name, s->behind, s->packing->name);
    }
    return ratio_check(s, given);
}

/* What was unpacked ahead */
static Status text_give(Stream *s, char **out, size_t *room)
{
    size_t bytes = s->text_bytes < *room ? s->text_bytes : *room;
    memcpy(*out, s->text, bytes);
    s->text       += bytes;
    s->text_bytes -= bytes;
    *out  += bytes;
    *room -= bytes;
    return ratio_check(s, bytes);
}

static Status packed_read(Stream *s, char **out, size_t *room)
{
    while (*room) {
        if (s->text_bytes) {
            TRY(text_give(s, out, room));
            continue;
        }
        bool drained = !s->ahead || !s->inside || s->hungry;    /* a new piece helps only a member that begins with it */
        if (s->at == s->end && !s->ended && drained) TRY(chunk_fill(s));
        if (s->ahead && s->at == s->end && !s->ended && !s->inside) continue;
        if (s->at == s->end && !s->inside) {
            if (s->behind == 0) return fail(BAD_FILE, "%s: byte 0: not %s: the file is empty", s->name, s->packing->name);
            return OK;
        }
        TRY(member_step(s, out, room));
    }
    return OK;
}

static Status plain_read(Stream *s, char **out, size_t *room)
{
    while (*room) {
        size_t bytes = s->end - s->at < *room ? s->end - s->at : *room;
        if (!bytes && s->ended) return OK;
        memcpy(*out, s->chunk + s->at, bytes);
        s->at += bytes;
        if (!bytes) TRY(file_read(s, *out, *room, &bytes));    /* nothing is to be unpacked: straight to where it is wanted */
        *out  += bytes;
        *room -= bytes;
    }
    return OK;
}

Status stream_read(Stream *s, char *out, size_t room, size_t *got)
{
    size_t left = room;
    *got = 0;
    if (s->broken != OK) return fail(s->broken, "%s", s->why);
    Status status = s->packing ? packed_read(s, &out, &left) : plain_read(s, &out, &left);
    *got = room - left;
    if (status != OK) stream_break(s, status);
    return *got ? OK : status;                  /* what came before the damage first */
}
