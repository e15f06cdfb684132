/* Appends to texts of fixed size. */
#include "base/message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* part: what does not fit whole is cut, not left out. */
static bool add(char *out, size_t size, bool part, const char *between, const char *format, va_list arguments)
{
    size_t used = strnlen(out, size), before = strlen(between);
    if (used + before >= size) return false;
    memcpy(out + used, between, before + 1);
    int  bytes = vsnprintf(out + used + before, size - used - before, format, arguments);
    bool whole = bytes >= 0 && (size_t)bytes < size - used - before;
    if (!whole && !part) out[used] = 0;
    return whole;
}

bool message_add(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, true, "", format, arguments);
    va_end(arguments);
    return whole;
}

bool message_item(char *out, size_t size, const char *between, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, false, size && *out ? between : "", format, arguments);
    va_end(arguments);
    return whole;
}

bool message_choice(char *out, size_t size, int at, int count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, false, at == 0 ? "" : at + 1 < count ? ", " : " or ", format, arguments);
    va_end(arguments);
    return whole;
}

const char *message_shape(char *out, size_t size, const int64_t *dim, int dims)
{
    message_add(out, size, "[");
    for (int d = 0; d < dims; d++) message_add(out, size, "%s%" PRId64, d ? ", " : "", dim[d]);
    message_add(out, size, "]");
    return out;
}

const char *message_multiples(char *out, size_t size, int64_t value, int64_t unit)
{
    int64_t below = value / unit * unit;
    if (below) snprintf(out, size, "%" PRId64 " or %" PRId64, below, below + unit);
    else       snprintf(out, size, "%" PRId64, unit);
    return out;
}
