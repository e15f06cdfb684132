/* Any bytes as a line: taken and refused as by jansson, with the same text. Lines with a byte 0 are not
 * compared: jansson takes it behind a number or a literal, where RFC 8259 has nothing like it. */
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "corpus/read/json_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const key[] = { "text" };
    json_error_t error;
    JsonText     text;
    char         names[64];
    char *line = malloc(bytes);                 /* as long as it is, so that no byte behind it can be read */
    memcpy(line, data, bytes);
    json_line_names(names, sizeof names, line, (int64_t)bytes);
    JsonFault fault = json_line_texts(&text, key, 1, line, (int64_t)bytes);
    json_t   *whole = json_loadb((const char *)data, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    bool      sized = (!whole && json_error_code(&error) == json_error_numeric_overflow) || memchr(data, 0, bytes);
    const json_t *want = json_object_get(whole, "text");
    if (!sized && json_is_string(want) != !fault.why) abort();
    if (!sized && !fault.why && ((size_t)text.bytes != json_string_length(want) || memcmp(text.text, json_string_value(want), (size_t)text.bytes)))
        abort();
    if (fault.why && memcmp(line, data, bytes)) abort();
    json_decref(whole);
    free(line);
    return 0;
}
