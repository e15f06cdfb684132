/* Writes JSON: strings are escaped as RFC 8259 requires and no more, so that UTF-8 stays readable. */
#include "base/json_text.h"

#include <stdbool.h>
#include <string.h>
#include "base/utf8.h"

static bool needs_no_escape(unsigned char c) { return c >= 0x20 && c != '"' && c != '\\'; }

static Status escape_add(Buffer *out, unsigned char c)
{
    switch (c) {
    case '"':  return buffer_add(out, "\\\"", 2);
    case '\\': return buffer_add(out, "\\\\", 2);
    case '\n': return buffer_add(out, "\\n", 2);
    case '\t': return buffer_add(out, "\\t", 2);
    case '\r': return buffer_add(out, "\\r", 2);
    }
    return buffer_format(out, "\\u%04x", c);
}

/* Runs of bytes without an escape are appended at once, since most strings have no escape at all. */
Status json_text_string(Buffer *out, JsonText text)
{
    TRY(buffer_add(out, "\"", 1));
    for (int64_t at = 0; at < text.bytes; ) {
        int64_t end = at;
        while (end < text.bytes && needs_no_escape((unsigned char)text.text[end])) end++;
        TRY(buffer_add(out, text.text + at, end - at));
        if (end < text.bytes) TRY(escape_add(out, (unsigned char)text.text[end++]));
        at = end;
    }
    return buffer_add(out, "\"", 1);
}

Status json_text_member(Buffer *out, const char *name, JsonText text)
{
    if (!text.text) return OK;
    TRY(buffer_format(out, ", \"%s\": ", name));
    return json_text_string(out, text);
}

Status json_text_label(Buffer *out, const char *label)
{
    Buffer  copy  = { 0 };
    int64_t bytes = (int64_t)strlen(label);
    if (utf8_broken(label, bytes) < 0) return json_text_string(out, json_text_of(label, bytes));
    Status status = utf8_repair(&copy, label, bytes);
    if (status == OK) status = json_text_string(out, json_text_of(copy.text, copy.bytes));
    buffer_free(&copy);
    return status;
}

Status json_text_path(Buffer *out, const char *name, const char *path)
{
    TRY(buffer_format(out, ", \"%s\": ", name));
    return json_text_label(out, path);
}
