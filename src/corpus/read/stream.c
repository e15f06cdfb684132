/* One decompressed byte stream over a file. Input comes in chunks, from the file or as pieces from
 * stream_ahead; output is written directly to the caller's memory. An error is kept back until the bytes
 * before it have been returned, so that a damaged file gives all that is readable. */
#include "corpus/read/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/read/stream_ahead.h"

enum { CHUNK = 256 << 10, RATIO_OVER = 64 << 20 };      /* bytes; the ratio is checked after so much text */

struct Stream {
    FILE          *file;
    char          *name;            /* for messages; owned */
    const Codec *codec;             /* NULL: not compressed */
    void          *state;
    bool           in_member;       /* a member has begun and not ended */
    bool           needs_input;     /* the member gives no output without more input */
    bool           ended;           /* the file has no more bytes */
    int64_t        file_bytes;      /* bytes of the file read, unused ones in the chunk included */
    int64_t        ratio_most;
    /* Ratio check: compressed bytes used at the last check, text bytes since. */
    int64_t        in_marked, out_since;
    Failure        broken;          /* kept until the text before it was returned */
    Ahead         *ahead;           /* NULL: the calling thread decompresses */
    const char    *text;            /* rest of the text of a piece decompressed ahead */
    size_t         text_bytes;      /*     and its bytes */
    const char    *in;              /* the compressed input: chunk, or a piece */
    size_t         at, end;
    int            window_log;      /* largest window: 2^window_log */
    bool           texts, begun;    /* stream_texts was called; the first bytes were looked at */
    const char    *named;           /* --input-encoding; NULL: the first bytes say it */
    char           head[4];         /* of the text: those of head_at to head_end are still to be returned */
    size_t         head_at, head_end;
    struct Conversion *conversion;  /* NULL: the text is UTF-8; owned */
    char           chunk[CHUNK];
};

/* A text that is converted: `raw` is what was read of it, `wide` what was converted and not yet returned. */
typedef struct Conversion {
    Encoding *encoding;
    char      raw[64 << 10], wide[64 << 10];
    size_t    raw_end, wide_at, wide_end;
    bool      raw_ended, cut, ended;    /* cut: the file is damaged behind `raw`; ended: all is in `wide` */
} Conversion;

/* Compressed bytes that were used: those read without the unused rest of the chunk. */
int64_t stream_bytes_read(const Stream *s) { return s->file_bytes - (int64_t)(s->end - s->at); }

/* ---- opening ---- */

/* Takes the next piece. One with text counts as used, and its text is returned; one without, and any piece
 * inside a member that began in an earlier piece, is decompressed here. */
static Status piece_fill(Stream *s)
{
    const AheadPiece *piece = ahead_next(s->ahead);
    bool ready     = piece && piece->decompressed && !s->in_member;
    s->ended       = !piece;
    s->in          = piece ? piece->compressed.text : s->chunk;
    s->end         = piece ? (size_t)piece->compressed.bytes : 0;
    s->file_bytes += (int64_t)s->end;
    s->at          = ready ? s->end : 0;
    s->text        = ready ? piece->text.text : NULL;
    s->text_bytes  = ready ? (size_t)piece->text.bytes : 0;
    if (!s->ended || !ahead_error(s->ahead)) return OK;
    return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %s", s->name, s->file_bytes,
                strerror(ahead_error(s->ahead)));
}

static Status file_read(Stream *s, char *to, size_t capacity, size_t *got)
{
    *got = fread(to, 1, capacity, s->file);
    s->file_bytes += (int64_t)*got;
    s->ended       = *got < capacity;
    if (!ferror(s->file)) return OK;
    return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %s", s->name, s->file_bytes,
                strerror(errno));
}

static Status chunk_fill(Stream *s)
{
    if (s->ahead) return piece_fill(s);
    s->at = 0;
    s->in = s->chunk;
    return file_read(s, s->chunk, CHUNK, &s->end);
}

Status stream_of(Stream **stream, FILE *file, const char *name, const Codec *codec, int64_t ratio_most)
{
    Stream *s = calloc(1, sizeof *s);
    *stream = NULL;
    if (s) *s = (Stream){ .file = file, .name = strdup(name), .codec = codec, .ratio_most = ratio_most,
                      .window_log = STREAM_WINDOW_LOG };
    if (s) s->in = s->chunk;
    if (s && codec) s->state = codec->open();
    if (s && s->name && (!codec || s->state)) {
        *stream = s;
        return OK;
    }
    if (s) stream_close(s);
    else if (file != stdin) fclose(file);
    return fail(NO_MEMORY, "%s: no memory to read it", name);
}

/* Standard input has no name, so its first bytes decide; they stay in the chunk. */
static Status standard_open(Stream **stream, int64_t ratio_most)
{
    TRY(stream_of(stream, stdin, "standard input", NULL, ratio_most));
    Stream *s = *stream;
    Status status = chunk_fill(s);
    if (status == OK) s->codec = codec_by_magic(s->chunk, s->end);
    if (s->codec && !(s->state = s->codec->open())) {
        s->codec = NULL;
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
    setvbuf(file, NULL, _IONBF, 0);             /* the chunk is the buffer: no second copy */
    return stream_of(stream, file, path, codec_by_ending(path), ratio_most);
}

/* Bytes that are in the chunk already become the beginning of the first piece. */
Status stream_ahead(Stream *s, int threads)
{
    if (threads <= 1 || !s->codec || !s->codec->start) return OK;
    TRY(ahead_open(&s->ahead, s->file, s->codec, s->in + s->at, s->end - s->at, threads));
    s->file_bytes -= (int64_t)(s->end - s->at);
    s->end = s->at = 0;
    s->ended = false;
    return OK;
}

void stream_close(Stream *s)
{
    if (!s) return;
    ahead_close(s->ahead);
    if (s->conversion) encoding_close(s->conversion->encoding);
    free(s->conversion);
    if (s->state) s->codec->close(s->state);
    if (s->file != stdin) fclose(s->file);
    free(s->name);
    free(s);
}

/* ---- reading ---- */

/* The ratio is checked for each stretch of RATIO_OVER bytes and not over the whole file, so that a bomb
 * after much ordinary text is found as well. */
static Status ratio_check(Stream *s, size_t out)
{
    s->out_since += (int64_t)out;
    if (s->out_since < RATIO_OVER) return OK;
    int64_t in = stream_bytes_read(s) - s->in_marked;
    if (s->ratio_most && s->out_since / s->ratio_most > in)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": %" PRId64 " bytes decompress to %" PRId64
                    ", more than %" PRId64 " times as much: a bomb? --max-ratio 0 accepts any",
                    s->name, s->in_marked, in, s->out_since, s->ratio_most);
    s->in_marked += in;
    s->out_since  = 0;
    return OK;
}

static Status member_step(Stream *s, char **out, size_t *capacity)
{
    const char   *why = NULL;
    CodecWindow w = { s->in + s->at, s->end - s->at, *out, *capacity };
    CodecStep   step = s->codec->step(s->state, &w, &why);
    size_t        taken = s->end - s->at - w.in_bytes, given = *capacity - w.out_bytes;
    s->in_member = s->in_member || taken;
    s->at += taken;
    *out   = w.out;
    *capacity  = w.out_bytes;
    s->needs_input = *capacity > 0;
    if (step == CODEC_WIDE)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": a %s frame whose window is above the limit of 2^%d "
                    "bytes: --zstd-window-log N accepts windows up to 2^N, which take as much memory; N is "
                    "at most 31", s->name, stream_bytes_read(s), s->codec->name, s->window_log);
    if (step == CODEC_BROKEN)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": not %s, or damaged: %s", s->name, stream_bytes_read(s),
                    s->codec->name, why);
    if (step == CODEC_END) {
        s->in_member = false;
        if (!s->codec->again(s->state)) return fail(NO_MEMORY, "%s: no memory to read on", s->name);
    } else if (s->in_member && s->ended && s->at == s->end && *capacity) {
        return fail(BAD_FILE, "%s: byte %" PRId64 ": the file ends in the middle of its %s data;"
                    " copy it again", s->name, s->file_bytes, s->codec->name);
    }
    return ratio_check(s, given);
}

/* Returns text that was decompressed ahead. */
static Status text_copy(Stream *s, char **out, size_t *capacity)
{
    size_t bytes = s->text_bytes < *capacity ? s->text_bytes : *capacity;
    memcpy(*out, s->text, bytes);
    s->text       += bytes;
    s->text_bytes -= bytes;
    *out  += bytes;
    *capacity -= bytes;
    return ratio_check(s, bytes);
}

static Status compressed_read(Stream *s, char **out, size_t *capacity)
{
    while (*capacity) {
        if (s->text_bytes) {
            TRY(text_copy(s, out, capacity));
            continue;
        }
        /* With pieces, new input is fetched only when no member is open or the open one needs it: a new
         * piece might have its text already, which is valid only if no member is open. */
        bool drained = !s->ahead || !s->in_member || s->needs_input;
        if (s->at == s->end && !s->ended && drained) TRY(chunk_fill(s));
        if (s->ahead && s->at == s->end && !s->ended && !s->in_member) continue;
        if (s->at == s->end && !s->in_member) {
            if (s->file_bytes == 0)
                return fail(BAD_FILE, "%s: byte 0: not %s: the file is empty", s->name, s->codec->name);
            return OK;
        }
        TRY(member_step(s, out, capacity));
    }
    return OK;
}

static Status plain_read(Stream *s, char **out, size_t *capacity)
{
    while (*capacity) {
        size_t bytes = s->end - s->at < *capacity ? s->end - s->at : *capacity;
        if (!bytes && s->ended) return OK;
        memcpy(*out, s->chunk + s->at, bytes);
        s->at += bytes;
        /* Past the chunk bytes are read directly into the caller's memory. */
        if (!bytes) TRY(file_read(s, *out, *capacity, &bytes));
        *out  += bytes;
        *capacity -= bytes;
    }
    return OK;
}

static Status bytes_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    size_t left = capacity;
    *got = 0;
    TRY(failure_report(&s->broken));
    Status status = s->codec ? compressed_read(s, &out, &left) : plain_read(s, &out, &left);
    *got = capacity - left;
    failure_keep(&s->broken, status);
    return *got ? OK : status;                  /* what precedes the damage is returned first */
}

/* ---- texts ---- */

Status stream_texts(Stream *s, TextRules rules)
{
    s->texts = true;
    s->named = rules.encoding;
    if (rules.window_log) s->window_log = rules.window_log;
    if (s->codec && s->codec->window) s->codec->window(s->state, s->window_log);
    return encoding_known(rules.encoding);
}

/* Looks at the first bytes. A failure stays, as every other. */
static Status texts_begin(Stream *s)
{
    Encoding *encoding;
    size_t    mark;
    s->begun = true;
    TRY(bytes_read(s, s->head, sizeof s->head, &s->head_end));
    Status status = encoding_open(&encoding, &mark, s->named, s->name, s->head, s->head_end);
    if (status != OK) return failure_keep(&s->broken, status);
    s->head_at = mark;
    if (!encoding) return OK;
    s->conversion = calloc(1, sizeof *s->conversion);
    if (!s->conversion) {
        encoding_close(encoding);
        return failure_keep(&s->broken, fail(NO_MEMORY, "%s: no memory to convert it", s->name));
    }
    Conversion *c = s->conversion;
    c->encoding = encoding;
    c->raw_end  = s->head_end - mark;
    memcpy(c->raw, s->head + mark, c->raw_end);
    return OK;
}

/* Where the file ends or is damaged, the next read of a byte tells which. */
static void raw_fill(Stream *s, Conversion *c)
{
    size_t got, none, wanted = sizeof c->raw - c->raw_end;
    char   byte;
    if (c->raw_ended) return;
    Status status = bytes_read(s, c->raw + c->raw_end, wanted, &got);
    c->raw_end  += got;
    c->raw_ended = got < wanted;
    if (c->raw_ended) c->cut = status != OK || bytes_read(s, &byte, 1, &none) != OK;
}

static void wide_fill(Stream *s, Conversion *c)
{
    raw_fill(s, c);
    bool whole = c->raw_ended && !c->cut;
    EncodingWindow w = { c->raw, c->raw_end, c->wide, sizeof c->wide };
    size_t before = c->raw_end;
    Status status = encoding_step(c->encoding, &w, whole);
    memmove(c->raw, w.in, w.in_bytes);
    c->raw_end  = w.in_bytes;
    c->wide_at  = 0;
    c->wide_end = sizeof c->wide - w.out_bytes;
    failure_keep(&s->broken, status);
    c->ended = status != OK || (c->raw_ended && (c->raw_end == 0 || c->raw_end == before) && !c->wide_end);
}

static Status converted_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    Conversion *c = s->conversion;
    while (*got < capacity) {
        size_t bytes = c->wide_end - c->wide_at;
        if (bytes > capacity - *got) bytes = capacity - *got;
        memcpy(out + *got, c->wide + c->wide_at, bytes);
        c->wide_at += bytes;
        *got += bytes;
        if (c->wide_at < c->wide_end) break;
        if (c->ended) break;
        wide_fill(s, c);
    }
    return *got ? OK : failure_report(&s->broken);
}

Status stream_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    *got = 0;
    if (s->texts && !s->begun) TRY(texts_begin(s));
    if (s->conversion) return converted_read(s, out, capacity, got);
    if (s->head_at == s->head_end) return bytes_read(s, out, capacity, got);
    size_t first = s->head_end - s->head_at < capacity ? s->head_end - s->head_at : capacity;
    memcpy(out, s->head + s->head_at, first);
    s->head_at += first;
    Status status = first < capacity ? bytes_read(s, out + first, capacity - first, got) : OK;
    *got += first;
    return *got ? OK : status;
}
