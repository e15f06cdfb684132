/* Texts that are unknown in part. */
#include "conf/script/script.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool script_unknown(const char *text)
{
    return strchr(text, UNKNOWN_BEGIN) != NULL;
}

bool script_unset(const char *text)
{
    const char *end = strchr(text, UNKNOWN_END);
    return *text == UNKNOWN_BEGIN && text[1] == '$' && (isalnum((unsigned char)text[2]) || text[2] == '_') &&
           end && !end[1];
}

const char *script_unknown_part(char *out, size_t size, const char *text)
{
    const char *begin = strchr(text, UNKNOWN_BEGIN), *end = begin ? strchr(begin, UNKNOWN_END) : NULL;
    snprintf(out, size, "%.*s", end ? (int)(end - begin - 1) : 0, begin ? begin + 1 : "");
    return out;
}

const char *script_plain(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++)
        if (*text == UNKNOWN_BEGIN) text += text[1] == '$' && text[2] != '(' && text[2] != '{';
        else if (*text != UNKNOWN_END) out[used++] = *text;
    out[used] = 0;
    return out;
}
