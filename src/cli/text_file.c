/* Reading texts in pieces of whole lines, and writing them. */
#include "cli/text_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "corpus/read/stream.h"
#include "base/utf8.h"

enum { PIECE_BYTES = 4 << 20, LINE_MOST = 256 << 20 };

/* name: for messages; used: bytes of `text` in the last piece; lines: of all pieces before */
typedef struct { const char *name; Stream *stream; Buffer text; int64_t used, lines; bool ended; } Reader;

/* The rest of the last piece, which has no end of a line, is the beginning of the next one. At the end of the
 * text there is none. */
static Status piece_read(TextSpan *lines, Reader *r)
{
    Buffer *text = &r->text;
    size_t  got;
    if (r->used) memmove(text->text, text->text + r->used, (size_t)(text->bytes - r->used));
    text->bytes -= r->used;
    r->used = 0;
    while (!r->ended && !r->used) {
        int64_t from = text->bytes;
        if (from > LINE_MOST)
            return fail(BAD_FILE, "%s: a line of more than %d bytes; cut it", r->name, LINE_MOST);
        TRY(buffer_reserve(text, PIECE_BYTES));
        TRY(stream_read(r->stream, text->text + from, PIECE_BYTES, &got));
        text->bytes += (int64_t)got;
        r->ended = got == 0;                                 /* damage is reported by the call behind it */
        const char *end = memrchr(text->text + from, '\n', got);
        r->used  = end ? end - text->text + 1 : 0;
    }
    if (r->ended) r->used = text->bytes;
    *lines = (TextSpan){ text->text ? text->text : "", r->used };
    return OK;
}

static Status piece_check(Reader *r, TextSpan piece, const TextRules *rules)
{
    int64_t broken = rules ? text_not_utf8(piece.text, piece.bytes) : utf8_broken(piece.text, piece.bytes);
    const char *line = piece.text, *stop = line + (broken < 0 ? piece.bytes : broken), *end;
    for (; (end = memchr(line, '\n', (size_t)(stop - line))); line = end + 1) r->lines++;
    if (broken < 0) return OK;
    if (!*stop)
        return fail(BAD_FILE, "%s:%" PRId64 ": byte %td of the line is NUL, which no text here may have; "
                    "jotun clean --invalid-utf8 repair writes U+FFFD instead", r->name, r->lines + 1,
                    stop - line);
    return fail(BAD_FILE, "%s:%" PRId64 ": byte %td of the line is 0x%02X, which is not UTF-8; %s", r->name,
                r->lines + 1, stop - line, (unsigned char)*stop,
                rules ? "--input-encoding names another encoding" : "jotun clean writes texts that are");
}

Status text_pieces(const char *path, const TextRules *rules, Status (*take)(void *, TextSpan), void *context)
{
    Reader   reader = { .name = strcmp(path, "-") ? path : "standard input" };
    TextSpan lines;
    TRY(stream_open(&reader.stream, path, STREAM_RATIO_MOST));
    Status status = rules ? stream_texts(reader.stream, *rules) : OK;
    while (status == OK && (status = piece_read(&lines, &reader)) == OK && lines.bytes) {
        status = piece_check(&reader, lines, rules);
        if (status == OK) status = take(context, lines);
    }
    stream_close(reader.stream);
    buffer_free(&reader.text);
    return status;
}

/* ---- in parts ---- */

static void parts_make(void *context, int64_t begin, int64_t end)
{
    TextParts *p = context;
    for (int64_t i = begin; i < end; i++) p->made[i].bytes = 0, p->make(p->context, p->part[i], &p->made[i]);
}

/* Where lines are long, some parts are empty. */
Status text_parts_make(void *parts, TextSpan lines)
{
    TextParts *p = parts;
    for (int64_t i = 0, at = 0; i < TEXT_PARTS; i++) {
        int64_t to = lines.bytes * (i + 1) / TEXT_PARTS;
        const char *end = to < lines.bytes && to > at
                              ? memchr(lines.text + to, '\n', (size_t)(lines.bytes - to)) : NULL;
        to = to <= at ? at : end ? end - lines.text + 1 : lines.bytes;
        p->part[i] = (TextSpan){ lines.text + at, to - at };
        at = to;
    }
    team_for(p->team, TEXT_PARTS, 1, parts_make, p);
    for (int i = 0; i < TEXT_PARTS; i++) TRY(p->take(p->context, &p->made[i]));
    return OK;
}

void text_parts_close(TextParts *p)
{
    for (int i = 0; i < TEXT_PARTS; i++) buffer_free(&p->made[i]);
    team_close(p->team);
}

/* ---- writing ---- */

static bool is_standard(const TextOutput *out) { return !strcmp(out->path, "-"); }

Status text_output_open(TextOutput *out, const char *path)
{
    *out = (TextOutput){ .path = path, .fd = -1 };
    if (is_standard(out)) return OK;
    if (snprintf(out->part, sizeof out->part, "%s.part", path) >= 1024)
        return fail(BAD_OPTION, "%.80s...: the path is too long", path);
    return file_create(&out->fd, out->part);
}

Status text_output_put(TextOutput *out, const void *text, int64_t bytes)
{
    if (is_standard(out)) {
        fwrite(text, 1, (size_t)bytes, stdout);               /* main reports a failure */
        return OK;
    }
    TRY(file_write(out->fd, out->part, text, (size_t)bytes, out->at));
    out->at += bytes;
    return OK;
}

Status text_output_finish(TextOutput *out, Status status)
{
    if (is_standard(out) || out->fd < 0) return status;
    if (status == OK) status = file_finish(out->fd, out->part);
    else              close(out->fd);
    if (status == OK) status = file_rename(out->part, out->path);
    if (status != OK) unlink(out->part);
    out->fd = -1;
    return status;
}
