/* The messages of a reader, and numbers with a range. */
#include "base/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

Status reader_refuse(const ByteReader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_list(BAD_FILE, format, arguments);
    va_end(arguments);
    return fail(BAD_FILE, "%s: byte %zu: %s%s%s", r->path, reader_offset(r), fail_text(),
                r->hint ? "; " : "", r->hint ? r->hint : "");
}

Status reader_short(const ByteReader *r, uint64_t bytes, const char *what)
{
    return reader_refuse(r, "%s: %" PRIu64 " bytes are expected and %zu are left", what, bytes,
                         reader_left(r));
}

Status reader_integer(int64_t *value, ByteReader *r, int bytes, int64_t least, int64_t most, const char *what)
{
    uint64_t number;
    int      above = 64 - 8 * bytes;                    /* bits that the sign fills */
    TRY(reader_number(&number, r, bytes, what));
    *value = (int64_t)(number << above) >> above;
    if (*value >= least && *value <= most) return OK;
    r->at -= bytes;
    return reader_refuse(r, "%s is %" PRId64 ", which is not one of %" PRId64 " to %" PRId64, what, *value,
                         least, most);
}

Status reader_int32(int32_t *value, ByteReader *r, int32_t least, int32_t most, const char *what)
{
    int64_t whole;
    TRY(reader_integer(&whole, r, 4, least, most, what));
    *value = (int32_t)whole;
    return OK;
}
