/* Appends to texts of fixed size. */
#include "base/message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool add(char *out, size_t size, const char *between, const char *format, va_list arguments)
{
    size_t used = strnlen(out, size);
    if (used == size) return false;
    int before = snprintf(out + used, size - used, "%s", between);
    if (before < 0 || (size_t)before >= size - used) return false;
    used += (size_t)before;
    int bytes = vsnprintf(out + used, size - used, format, arguments);
    return bytes >= 0 && (size_t)bytes < size - used;
}

bool message_add(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, "", format, arguments);
    va_end(arguments);
    return whole;
}

bool message_item(char *out, size_t size, const char *between, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, size && *out ? between : "", format, arguments);
    va_end(arguments);
    return whole;
}

bool message_choice(char *out, size_t size, int at, int count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = add(out, size, at == 0 ? "" : at + 1 < count ? ", " : " or ", format, arguments);
    va_end(arguments);
    return whole;
}

const char *message_shape(char *out, size_t size, const int64_t *dim, int dims)
{
    snprintf(out, size, "[");
    for (int d = 0; d < dims; d++) message_add(out, size, "%s%" PRId64, d ? ", " : "", dim[d]);
    message_add(out, size, "]");
    return out;
}
