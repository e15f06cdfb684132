#ifndef TESTS_CORPUS_PACKED_H
#define TESTS_CORPUS_PACKED_H
/* Files made for a test, packed by the libraries themselves. */
#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* One member: bytes at out, whose capacity suffices; returns how many */
typedef size_t Pack(char *out, size_t capacity, const char *text, size_t bytes);

__attribute__((unused)) static size_t pack_gz(char *out, size_t capacity, const char *text, size_t bytes)
{
    z_stream z = { 0 };
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in   = (Bytef *)(uintptr_t)text;
    z.avail_in  = (uInt)bytes;
    z.next_out  = (Bytef *)out;
    z.avail_out = (uInt)capacity;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return capacity - z.avail_out;
}

__attribute__((unused)) static size_t pack_zst(char *out, size_t capacity, const char *text, size_t bytes)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    size_t packed = ZSTD_compress2(z, out, capacity, text, bytes);
    ZSTD_freeCCtx(z);
    return packed;
}

__attribute__((unused)) static size_t pack_bz2(char *out, size_t capacity, const char *text, size_t bytes)
{
    unsigned packed = (unsigned)capacity;
    BZ2_bzBuffToBuffCompress(out, &packed, (char *)(uintptr_t)text, (unsigned)bytes, 1, 0, 0);
    return packed;
}

static const struct { const char *name, *ending; Pack *pack; } packs[] __attribute__((unused)) = {
    { "gzip", ".gz", pack_gz }, { "zstd", ".zst", pack_zst }, { "bzip2", ".bz2", pack_bz2 },
};
enum { PACKS = sizeof packs / sizeof *packs };
#endif
