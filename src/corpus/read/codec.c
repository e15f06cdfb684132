/* Decompression by zlib, zstd and bzip2 with one interface: a step consumes input and produces output
 * until one of both runs out or a member ends. */
#include "corpus/read/codec.h"

#include <bzlib.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>
#include "base/array.h"
#include "base/file.h"

/* A step of zlib or bzip2, whose states have the same four fields. They count bytes in ints; what does not
 * fit is left for the next step. */
#define INT_STEP(z, w, call) __extension__ ({                                                             \
    unsigned in_  = (w)->in_bytes  < INT_MAX ? (unsigned)(w)->in_bytes  : INT_MAX;                        \
    unsigned out_ = (w)->out_bytes < INT_MAX ? (unsigned)(w)->out_bytes : INT_MAX;                        \
    (z)->next_in  = (void *)(uintptr_t)(w)->in,  (z)->avail_in  = in_;                                    \
    (z)->next_out = (void *)(w)->out,            (z)->avail_out = out_;                                   \
    int result_ = (call);                                                                                 \
    in_ -= (z)->avail_in, out_ -= (z)->avail_out;                                                         \
    *(w) = (CodecWindow){ (w)->in + in_, (w)->in_bytes - in_, (w)->out + out_, (w)->out_bytes - out_ };   \
    result_; })

/* ---- gzip ---- */

enum { GZIP_ONLY = 15 + 16 };  /* windowBits of inflateInit2: the largest window, and only gzip's header */

static void *gz_open(int window_log)
{
    (void)window_log;
    z_stream *z = calloc(1, sizeof *z);
    if (z && inflateInit2(z, GZIP_ONLY) == Z_OK) return z;
    free(z);
    return NULL;
}

static CodecStep gz_step(void *state, CodecWindow *w, const char **why)
{
    z_stream *z = state;
    int result = INT_STEP(z, w, inflate(z, Z_NO_FLUSH));
    if (result == Z_STREAM_END) return CODEC_END;
    if (result == Z_OK || result == Z_BUF_ERROR) return CODEC_MORE;
    *why = z->msg ? z->msg : zError(result);
    return CODEC_BROKEN;
}

static void gz_close(void *state)
{
    inflateEnd(state);
    free(state);
}

/* ---- zstd ---- */

/* The library refuses frames whose window is larger, so memory is bounded. */
static void *zst_open(int window_log)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (z) ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, window_log);
    return z;
}

static CodecStep zst_step(void *state, CodecWindow *w, const char **why)
{
    ZSTD_inBuffer  in  = { w->in, w->in_bytes, 0 };
    ZSTD_outBuffer out = { w->out, w->out_bytes, 0 };
    size_t left = ZSTD_decompressStream(state, &out, &in);
    *w = (CodecWindow){ w->in + in.pos, w->in_bytes - in.pos, w->out + out.pos, w->out_bytes - out.pos };
    if (!ZSTD_isError(left)) return left ? CODEC_MORE : CODEC_END;
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) return CODEC_WIDE;
    *why = ZSTD_getErrorName(left);
    return CODEC_BROKEN;
}

static void zst_close(void *state) { ZSTD_freeDStream(state); }

/* ---- bzip2 ---- */

static void *bz2_open(int window_log)
{
    (void)window_log;
    bz_stream *z = calloc(1, sizeof *z);
    if (z && BZ2_bzDecompressInit(z, 0, 0) == BZ_OK) return z;
    free(z);
    return NULL;
}

static CodecStep bz2_step(void *state, CodecWindow *w, const char **why)
{
    bz_stream *z = state;
    int result = INT_STEP(z, w, BZ2_bzDecompress(z));
    if (result == BZ_STREAM_END) return CODEC_END;
    if (result == BZ_OK) return CODEC_MORE;
    *why = result == BZ_DATA_ERROR_MAGIC ? "incorrect header"
           : result == BZ_MEM_ERROR        ? "no memory"
                                           : "damaged block";
    return CODEC_BROKEN;
}

static void bz2_close(void *state)
{
    BZ2_bzDecompressEnd(state);
    free(state);
}

/* A member begins with "BZh", the digit of its block size and the magic of the first block (the digits of
 * pi): ten bytes, which compressed data contains by chance once in 2^77 positions. A member without blocks
 * has another magic, is not found, and is left in one piece with the member before it. */
static int64_t bz2_start(const char *text, size_t bytes, size_t from)
{
    static const char block[] = "1AY&SY";
    enum { HEAD = 4, BLOCK = sizeof block - 1 };
    for (size_t at = from + HEAD; at + BLOCK <= bytes; at++) {
        const char *found = memmem(text + at, bytes - at, block, BLOCK);
        if (!found) return -1;
        at = (size_t)(found - text);
        if (!memcmp(found - HEAD, "BZh", 3) && found[-1] >= '1' && found[-1] <= '9')
            return (int64_t)at - HEAD;
    }
    return -1;
}

/* ---- recognising the format ---- */

static const Codec codecs[] = {
    { "gzip",  ".gz",  "\x1f\x8b",         gz_open,  gz_step,  gz_close,  NULL },
    { "zstd",  ".zst", "\x28\xb5\x2f\xfd", zst_open, zst_step, zst_close, NULL },
    { "bzip2", ".bz2", "BZh",              bz2_open, bz2_step, bz2_close, bz2_start },
};
enum { CODECS = COUNT(codecs) };

const Codec *codec_by_ending(const char *path)
{
    for (int i = 0; i < CODECS; i++)
        if (path_ends(path, strlen(path), codecs[i].ending)) return &codecs[i];
    return NULL;
}

const Codec *codec_by_magic(const char *text, size_t bytes)
{
    for (int i = 0; i < CODECS; i++) {
        size_t magic = strlen(codecs[i].magic);
        if (bytes >= magic && !memcmp(text, codecs[i].magic, magic)) return &codecs[i];
    }
    return NULL;
}

Status codec_check_uncompressed(const char *path, const char *text, size_t bytes)
{
    const Codec *codec = codec_by_ending(path);
    if (!codec || codec_by_magic(text, bytes) != codec) return OK;
    return fail(BAD_FILE, "%s: it is compressed by %s, and this command reads it without decompression;"
                " decompress it first", path, codec->name);
}
