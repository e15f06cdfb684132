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
    void          *state;           /* of the member that is read; NULL: between members */
    bool           in_member;       /* a member has begun and not ended */
    bool           needs_input;     /* the member gives no output without more input */
    bool           ended;           /* the file has no more bytes */
    int64_t        file_bytes;      /* bytes of the file read, unused ones in the chunk included */
    int64_t        ratio_most;
    /* Ratio check: compressed bytes used at the last check, text bytes since. */
    int64_t        in_marked, out_since;
    Failure        broken;          /* kept until the text before it was returned */
    Ahead         *ahead;           /* NULL: the calling thread decompresses */
    /* The rest of a text that needs no decompressing: of a piece decompressed ahead, or of a chunk of a file
     * that is not compressed. */
    const char    *text;
    size_t         text_bytes;
    const char    *in;              /* the compressed input: chunk, or a piece */
    size_t         at, end;
    int            window_log;      /* largest window: 2^window_log */
    bool           texts, begun;    /* stream_texts was called; the first bytes were looked at */
    const char    *named;           /* --input-encoding; NULL: the first bytes say it */
    Encoding      *encoding;        /* NULL: the text is UTF-8 */
    /* What was read of the text and not yet converted or returned: its first bytes, and more of one that is
     * converted. Then what was converted and not yet returned. */
    size_t         raw_at, raw_end, wide_at, wide_end;
    bool           raw_ended, cut;  /* `raw` has the last bytes; the file is damaged behind them */
    bool           all_converted;   /* all is in `wide` */
    char           chunk[CHUNK], raw[64 << 10], wide[64 << 10];
};

/* Compressed bytes that were used: those read without the unused rest of the chunk. */
int64_t stream_bytes_read(const Stream *s)
{
    return s->file_bytes - (int64_t)(s->end - s->at) - (int64_t)(s->codec ? 0 : s->text_bytes);
}

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

/* A chunk of a file that is not compressed is text. */
static void chunk_begin(Stream *s, size_t bytes)
{
    s->in         = s->text = s->chunk;
    s->text_bytes = s->codec ? 0 : bytes;
    s->end        = bytes - s->text_bytes;
    s->at         = 0;
}

static Status chunk_fill(Stream *s)
{
    if (s->ahead) return piece_fill(s);
    size_t got = fread(s->chunk, 1, CHUNK, s->file);
    s->file_bytes += (int64_t)got;
    s->ended       = got < CHUNK;
    chunk_begin(s, got);
    if (!ferror(s->file)) return OK;
    return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %s", s->name, s->file_bytes,
                strerror(errno));
}

Status stream_of(Stream **stream, FILE *file, const char *name, const Codec *codec, int64_t ratio_most)
{
    Stream *s = calloc(1, sizeof *s);
    *stream = NULL;
    if (s) *s = (Stream){ .file = file, .name = strdup(name), .codec = codec, .ratio_most = ratio_most,
                      .window_log = STREAM_WINDOW_LOG };
    if (s) chunk_begin(s, 0);
    if (s && s->name) {
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
    if (status == OK) s->codec = codec_by_magic(s->chunk, s->text_bytes);
    if (s->codec) chunk_begin(s, s->text_bytes);
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
    encoding_close(s->encoding);
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
    const char *why = NULL;
    if (!s->state && !(s->state = s->codec->open(s->window_log)))
        return fail(NO_MEMORY, "%s: no memory to decompress it", s->name);
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
        s->codec->close(s->state);
        s->state = NULL;
    } else if (s->in_member && s->ended && s->at == s->end && *capacity) {
        return fail(BAD_FILE, "%s: byte %" PRId64 ": the file ends in the middle of its %s data;"
                    " copy it again", s->name, s->file_bytes, s->codec->name);
    }
    return ratio_check(s, given);
}

/* Returns text that needs no decompressing. */
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

static Status text_read(Stream *s, char **out, size_t *capacity)
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
        if (s->text_bytes) continue;
        if (s->ahead && s->at == s->end && !s->ended && !s->in_member) continue;
        if (s->at == s->end && !s->in_member) {
            if (s->codec && s->file_bytes == 0)
                return fail(BAD_FILE, "%s: byte 0: not %s: the file is empty", s->name, s->codec->name);
            return OK;
        }
        TRY(member_step(s, out, capacity));
    }
    return OK;
}

static Status bytes_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    size_t left = capacity;
    *got = 0;
    TRY(failure_report(&s->broken));
    Status status = text_read(s, &out, &left);
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
    return encoding_known(rules.encoding);
}

/* Looks at the first bytes. A failure stays, as every other. */
static Status texts_begin(Stream *s)
{
    s->begun = true;
    TRY(bytes_read(s, s->raw, 4, &s->raw_end));
    return failure_keep(&s->broken, encoding_open(&s->encoding, &s->raw_at, s->named, s->name, s->raw,
                                                  s->raw_end));
}

/* Where the file ends or is damaged, the next read of a byte tells which. */
static void raw_fill(Stream *s)
{
    size_t got, none, wanted = sizeof s->raw - s->raw_end;
    char   byte;
    if (s->raw_ended) return;
    Status status = bytes_read(s, s->raw + s->raw_end, wanted, &got);
    s->raw_end  += got;
    s->raw_ended = got < wanted;
    if (s->raw_ended) s->cut = status != OK || bytes_read(s, &byte, 1, &none) != OK;
}

static void wide_fill(Stream *s)
{
    raw_fill(s);
    size_t before = s->raw_end - s->raw_at;
    EncodingWindow w = { s->raw + s->raw_at, before, s->wide, sizeof s->wide };
    Status status = encoding_step(s->encoding, &w, s->raw_ended && !s->cut);
    memmove(s->raw, w.in, w.in_bytes);
    s->raw_at   = 0;
    s->raw_end  = w.in_bytes;
    s->wide_at  = 0;
    s->wide_end = sizeof s->wide - w.out_bytes;
    bool stuck = s->raw_end == 0 || s->raw_end == before;
    s->all_converted = failure_keep(&s->broken, status) != OK || (s->raw_ended && stuck && !s->wide_end);
}

static Status converted_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    while (*got < capacity) {
        size_t bytes = s->wide_end - s->wide_at;
        if (bytes > capacity - *got) bytes = capacity - *got;
        memcpy(out + *got, s->wide + s->wide_at, bytes);
        s->wide_at += bytes;
        *got += bytes;
        if (s->wide_at < s->wide_end || s->all_converted) break;
        wide_fill(s);
    }
    return *got ? OK : failure_report(&s->broken);
}

Status stream_read(Stream *s, char *out, size_t capacity, size_t *got)
{
    *got = 0;
    if (s->texts && !s->begun) TRY(texts_begin(s));
    if (s->encoding) return converted_read(s, out, capacity, got);
    size_t first = s->raw_end - s->raw_at < capacity ? s->raw_end - s->raw_at : capacity;
    memcpy(out, s->raw + s->raw_at, first);
    s->raw_at += first;
    Status status = first < capacity ? bytes_read(s, out + first, capacity - first, got) : OK;
    *got += first;
    return *got ? OK : status;
}
