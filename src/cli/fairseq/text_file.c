/* Reading and writing whole texts. */
#include "cli/fairseq/text_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "corpus/read/stream.h"
#include "corpus/read/utf8.h"

static Status read_all(Buffer *text, Stream *stream)
{
    size_t got;
    do {
        TRY(buffer_reserve(text, 1 << 20));
        TRY(stream_read(stream, text->text + text->bytes, 1 << 20, &got));
        text->bytes += (int64_t)got;
    } while (got == 1 << 20);
    return OK;
}

Status text_file_read(Buffer *text, const char *path)
{
    Stream *stream;
    *text = (Buffer){ 0 };
    TRY(stream_open(&stream, path, STREAM_RATIO_MOST));
    Status status = read_all(text, stream);
    stream_close(stream);
    TRY(status);
    int64_t broken = text->bytes ? utf8_broken(text->text, text->bytes) : -1;
    if (broken < 0) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 " is not UTF-8; jotun clean writes texts that are", path,
                broken);
}

TextSpan text_of(const Buffer *text) { return (TextSpan){ text->text ? text->text : "", text->bytes }; }

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
