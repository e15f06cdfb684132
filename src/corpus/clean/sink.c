/* Output files that appear atomically: PATH.part, then sync, rename, and sync of the directory, without
 * which the rename may be lost in a power failure. */
#include "corpus/clean/sink.h"

#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/seam.h"

enum { LEVEL = 3 };              /* of zstd: its default */

Status sink_open(Sink *s, const char *path)
{
    if (strlen(path) >= sizeof s->path)
        return fail(BAD_OPTION, "%.80s...: the path is longer than %zu bytes, give a shorter one", path,
                    sizeof s->path - 1);
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->part, sizeof s->part, "%s.part", path);
    s->at = s->bytes = s->text.bytes = 0;
    TRY(folder_make_for(s->part));
    TRY(file_create(&s->fd, s->part));
    if (!path_ends(path, strlen(path), ".zst")) return OK;
    s->zstd = ZSTD_createCCtx();
    if (!s->zstd) return fail(NO_MEMORY, "%s: no memory to compress it", path);
    ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
    return OK;
}

static Status write_plain(Sink *s, const Buffer *b)
{
    TRY(file_write(s->fd, s->part, b->text, (size_t)b->bytes, s->at));
    s->at += b->bytes;
    return OK;
}

/* ZSTD_e_continue returns when the input is consumed; ZSTD_e_end when the frame is complete, which
 * compressStream2 says by 0 left. */
static Status write_compressed(Sink *s, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = { s->text.text, (size_t)s->text.bytes, 0 };
    for (size_t left = 1; left && (how == ZSTD_e_end || in.pos < in.size); ) {
        s->compressed.bytes = 0;
        TRY(buffer_reserve(&s->compressed, (int64_t)ZSTD_CStreamOutSize()));
        ZSTD_outBuffer out = { s->compressed.text, (size_t)s->compressed.capacity, 0 };
        left = ZSTD_compressStream2(s->zstd, &out, &in, how);
        if (ZSTD_isError(left))
            return fail(NO_MEMORY, "%s: cannot be compressed: %s", s->path, ZSTD_getErrorName(left));
        s->compressed.bytes = (int64_t)out.pos;
        TRY(write_plain(s, &s->compressed));
        if (how == ZSTD_e_continue) left = 1;
    }
    return OK;
}

Status sink_flush(Sink *s, int64_t most)
{
    if (s->text.bytes <= most) return OK;
    s->bytes += s->text.bytes;
    TRY(s->zstd ? write_compressed(s, ZSTD_e_continue) : write_plain(s, &s->text));
    s->text.bytes = 0;
    return OK;
}

static Status finish_file(Sink *s)
{
    TRY(sink_flush(s, 0));
    if (s->zstd) TRY(write_compressed(s, ZSTD_e_end));
    int fd = s->fd;             /* file_finish closes it also when it fails */
    s->fd = -1;
    TRY(file_finish(fd, s->part));
    TRY(file_rename(s->part, s->path));
    return folder_sync_for(s->path);
}

Status sink_finish(Sink *s)
{
    Status status = finish_file(s);
    if (s->zstd) ZSTD_freeCCtx(s->zstd);
    s->zstd = NULL;
    if (status != OK) sink_discard(s);
    return status;
}

/* Also called after a failure, whose message must survive: nothing here calls fail(). */
void sink_discard(Sink *s)
{
    if (s->fd >= 0) {
        seam.close(s->fd);
        seam.remove(s->part);
    }
    if (s->zstd) ZSTD_freeCCtx(s->zstd);
    buffer_free(&s->text);
    buffer_free(&s->compressed);
    *s = (Sink){ .fd = -1 };
}
