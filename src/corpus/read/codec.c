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

/* Zlib and bzip2 count bytes in ints; what does not fit is left for the next step. */
static size_t int_bytes(size_t bytes) { return bytes < INT_MAX ? bytes : INT_MAX; }

/* ---- gzip ---- */

enum { GZIP_ONLY = 15 + 16 };  /* windowBits of inflateInit2: the largest window, and only gzip's header */

static void *gz_open(void)
{
    z_stream *z = calloc(1, sizeof *z);
    if (z && inflateInit2(z, GZIP_ONLY) == Z_OK) return z;
    free(z);
    return NULL;
}

static CodecStep gz_step(void *state, CodecWindow *w, const char **why)
{
    z_stream *z = state;
    size_t in = int_bytes(w->in_bytes), out = int_bytes(w->out_bytes);
    z->next_in   = (Bytef *)(uintptr_t)w->in;
    z->avail_in  = (uInt)in;
    z->next_out  = (Bytef *)w->out;
    z->avail_out = (uInt)out;
    int result = inflate(z, Z_NO_FLUSH);
    in  -= z->avail_in;
    out -= z->avail_out;
    *w = (CodecWindow){ w->in + in, w->in_bytes - in, w->out + out, w->out_bytes - out };
    if (result == Z_STREAM_END) return CODEC_END;
    if (result == Z_OK || result == Z_BUF_ERROR) return CODEC_MORE;
    *why = z->msg ? z->msg : zError(result);
    return CODEC_BROKEN;
}

static bool gz_again(void *state) { return inflateReset(state) == Z_OK; }

static void gz_close(void *state)
{
    inflateEnd(state);
    free(state);
}

/* ---- zstd ---- */

static void *zst_open(void) { return ZSTD_createDStream(); }

/* The library refuses frames whose window is above what zst_window has set, so memory is bounded. */
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

static bool zst_again(void *state)
{
    (void)state;  /* ZSTD_decompressStream begins the next frame by itself */
    return true;
}

static void zst_window(void *state, int log) { ZSTD_DCtx_setParameter(state, ZSTD_d_windowLogMax, log); }

static void zst_close(void *state) { ZSTD_freeDStream(state); }

/* ---- bzip2 ---- */

static void *bz2_open(void)
{
    bz_stream *z = calloc(1, sizeof *z);
    if (z && BZ2_bzDecompressInit(z, 0, 0) == BZ_OK) return z;
    free(z);
    return NULL;
}

static CodecStep bz2_step(void *state, CodecWindow *w, const char **why)
{
    bz_stream *z = state;
    size_t in = int_bytes(w->in_bytes), out = int_bytes(w->out_bytes);
    z->next_in   = (char *)(uintptr_t)w->in;
    z->avail_in  = (unsigned)in;
    z->next_out  = w->out;
    z->avail_out = (unsigned)out;
    int result = BZ2_bzDecompress(z);
    in  -= z->avail_in;
    out -= z->avail_out;
    *w = (CodecWindow){ w->in + in, w->in_bytes - in, w->out + out, w->out_bytes - out };
    if (result == BZ_STREAM_END) return CODEC_END;
    if (result == BZ_OK) return CODEC_MORE;
    *why = result == BZ_DATA_ERROR_MAGIC ? "incorrect header"
           : result == BZ_MEM_ERROR        ? "no memory"
                                           : "damaged block";
    return CODEC_BROKEN;
}

/* The library has no reset, so the state is opened again; it allocates its tables only when a block is
 * read. */
static bool bz2_again(void *state)
{
    bz_stream *z = state;
    BZ2_bzDecompressEnd(z);
    memset(z, 0, sizeof *z);
    return BZ2_bzDecompressInit(z, 0, 0) == BZ_OK;
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
    { "gzip",  ".gz",  "\x1f\x8b",         gz_open,  gz_step,  gz_again,  gz_close,  NULL,      NULL       },
    { "zstd",  ".zst", "\x28\xb5\x2f\xfd", zst_open, zst_step, zst_again, zst_close, NULL,      zst_window },
    { "bzip2", ".bz2", "BZh",              bz2_open, bz2_step, bz2_again, bz2_close, bz2_start, NULL       },
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
