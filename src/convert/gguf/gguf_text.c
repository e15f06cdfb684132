/* Keys and values of a GGUF file. */
#include "convert/gguf/gguf_text.h"
#include <stdlib.h>
#include <string.h>

void gguf_put(GgufText *out, const void *data, size_t bytes)
{
    if (out->status == OK) out->status = buffer_add(&out->text, data, (int64_t)bytes);
}

void gguf_put_number(GgufText *out, uint64_t value, int bytes)
{
    if (out->status == OK) out->status = buffer_add_number(&out->text, value, bytes);
}

void gguf_put_real(GgufText *out, double value)
{
    float    number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    gguf_put_number(out, bits, 4);
}

void gguf_put_string(GgufText *out, const char *text, size_t bytes)
{
    gguf_put_number(out, bytes, 8);
    gguf_put(out, text, bytes);
}

void gguf_key(GgufText *out, const char *key, GgufKind kind)
{
    gguf_put_string(out, key, strlen(key));
    gguf_put_number(out, kind, 4);
    out->keys++;
}

void gguf_key_array(GgufText *out, const char *key, GgufKind kind, int64_t count)
{
    gguf_key(out, key, GGUF_ARRAY);
    gguf_put_number(out, kind, 4);
    gguf_put_number(out, (uint64_t)count, 8);
}

void gguf_key_string(GgufText *out, const char *key, const char *text)
{
    gguf_key(out, key, GGUF_STRING);
    gguf_put_string(out, text, strlen(text));
}

void gguf_key_uint(GgufText *out, const char *key, int64_t value)
{
    gguf_key(out, key, GGUF_UINT32);
    gguf_put_number(out, (uint64_t)value, 4);
}

void gguf_key_real(GgufText *out, const char *key, double value)
{
    gguf_key(out, key, GGUF_FLOAT32);
    gguf_put_real(out, value);
}

void gguf_key_bool(GgufText *out, const char *key, bool value)
{
    gguf_key(out, key, GGUF_BOOL);
    gguf_put_number(out, value, 1);
}
