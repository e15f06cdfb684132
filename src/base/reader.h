#ifndef BASE_READER_H
#define BASE_READER_H
/* Reads the bytes of a file in order and never beyond its end. Numbers are little-endian; data need not be
 * aligned. Every failure is BAD_FILE and names the file and the byte:
 *
 *     PATH: byte 12: the number of words: 4 bytes are expected and 2 are left; HINT
 *
 * A reader is small and may be copied: a copy reads ahead, or a part of the file. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"

typedef struct {
    const uint8_t *at, *end;        /* the bytes not yet read */
    const uint8_t *begin;           /* of the file, from which messages count */
    const char    *path;            /* for messages; the caller's */
    const char    *hint;            /* what a person can do, at the end of messages; NULL: nothing */
} ByteReader;

static inline ByteReader reader_open(const void *data, size_t bytes, const char *path, const char *hint)
{
    const uint8_t *at = data;
    return (ByteReader){ at, at + bytes, at, path, hint };
}

static inline size_t reader_left(const ByteReader *r)   { return (size_t)(r->end - r->at); }
static inline size_t reader_offset(const ByteReader *r) { return (size_t)(r->at - r->begin); }

/* Fails with the file, the byte at which the reader is, a reason and the hint. */
Status reader_refuse(const ByteReader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The case of reader_bytes in which they are not there. */
Status reader_short(const ByteReader *r, uint64_t bytes, const char *what);

/* *piece: the next `bytes` bytes, in the file. `what` names them in messages. */
static inline Status reader_bytes(const uint8_t **piece, ByteReader *r, uint64_t bytes, const char *what)
{
    if (bytes > reader_left(r)) return reader_short(r, bytes, what);
    *piece = r->at;
    r->at += bytes;
    return OK;
}

/* An unsigned number of 1 to 8 bytes. The caller knows that they are there. */
static inline uint64_t little_endian(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

static inline Status reader_number(uint64_t *number, ByteReader *r, int bytes, const char *what)
{
    const uint8_t *at = NULL;
    TRY(reader_bytes(&at, r, (uint64_t)bytes, what));
    *number = little_endian(at, bytes);
    return OK;
}

/* A signed number of `bytes` bytes, which must be within its range. After a failure the reader is at it. */
Status reader_integer(int64_t *value, ByteReader *r, int bytes, int64_t least, int64_t most,
                      const char *what);
/* The same of four bytes. */
Status reader_int32(int32_t *value, ByteReader *r, int32_t least, int32_t most, const char *what);
#endif
