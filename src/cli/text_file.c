/* Reading texts in pieces of whole lines, and writing them. */
#include "cli/text_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "corpus/read/stream.h"
#include "base/utf8.h"

static Status not_text(const char *path, int64_t byte, char value)
{
    if (!value)
        return fail(BAD_FILE, "%s: byte %" PRId64 " is NUL, which no text here may have; jotun clean "
                    "--invalid-utf8 repair writes U+FFFD instead", path, byte);
    return fail(BAD_FILE, "%s: byte %" PRId64 " is not UTF-8; jotun clean writes texts that are", path, byte);
}

enum { PIECE_BYTES = 4 << 20 };

Status text_reader_open(TextReader *reader, const char *path)
{
    *reader = (TextReader){ .path = path, .name = strcmp(path, "-") ? path : "standard input" };
    return stream_open(&reader->stream, path, STREAM_RATIO_MOST);
}

void text_reader_close(TextReader *reader)
{
    if (reader->stream) stream_close(reader->stream);
    buffer_free(&reader->text);
    *reader = (TextReader){ 0 };
}

/* The rest of the last piece, which has no end of a line, is the beginning of the next one. */
Status text_reader_piece(TextSpan *lines, TextReader *r)
{
    Buffer *text = &r->text;
    size_t  got;
    r->before += r->used;
    if (r->used) memmove(text->text, text->text + r->used, (size_t)(text->bytes - r->used));
    text->bytes -= r->used;
    r->used = 0;
    while (!r->ended && !r->used) {
        int64_t from = text->bytes;
        if (r->line_most && from > r->line_most)
            return fail(BAD_FILE, "%s: a line of more than %" PRId64 " bytes; cut it", r->name, r->line_most);
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

static Status text_reader_next(TextSpan *lines, TextReader *r)
{
    TRY(text_reader_piece(lines, r));
    int64_t broken = utf8_broken(lines->text, lines->bytes);
    return broken < 0 ? OK : not_text(r->path, r->before + broken, lines->text[broken]);
}

Status text_pieces(const char *path, Status (*take)(void *, TextSpan), void *context)
{
    TextReader reader;
    TextSpan   lines;
    Status status = text_reader_open(&reader, path);
    while (status == OK && (status = text_reader_next(&lines, &reader)) == OK && lines.bytes)
        status = take(context, lines);
    text_reader_close(&reader);
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
