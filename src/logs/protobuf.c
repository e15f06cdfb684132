#include "logs/protobuf.h"
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

void bytes_add(Bytes *b, const void *data, size_t count)
{
    if (b->size + count > b->room) {
        b->room = 2 * (b->size + count);
        b->data = realloc(b->data, b->room);
        CHECK(b->data, "no memory for %zu bytes of a log", b->room);
    }
    if (count > 0) memcpy(b->data + b->size, data, count);
    b->size += count;
}

void bytes_add_little_endian(Bytes *b, uint64_t number, int count)
{
    for (int i = 0; i < count; i++) bytes_add(b, &(uint8_t){ (uint8_t)(number >> 8 * i) }, 1);
}

void bytes_free(Bytes *b)
{
    free(b->data);
    *b = (Bytes){ 0 };
}

/* ---- writing ---- */
/* Seven bits a byte, the lowest first; the highest bit says that more follow. */
void protobuf_varint(Bytes *out, uint64_t number)
{
    for (; number >= 128; number >>= 7) bytes_add(out, &(uint8_t){ (uint8_t)(number | 128) }, 1);
    bytes_add(out, &(uint8_t){ (uint8_t)number }, 1);
}

static void tag(Bytes *out, int field, int kind)
{
    protobuf_varint(out, (uint64_t)field << 3 | (uint64_t)kind);
}

void protobuf_integer(Bytes *out, int field, int64_t value)
{
    tag(out, field, 0);
    protobuf_varint(out, (uint64_t)value);
}

void protobuf_double(Bytes *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(out, field, 1);
    bytes_add_little_endian(out, bits, 8);
}

void protobuf_float(Bytes *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(out, field, 5);
    bytes_add_little_endian(out, bits, 4);
}

void protobuf_text(Bytes *out, int field, const char *text)
{
    size_t begin = protobuf_begin(out);
    bytes_add(out, text, strlen(text));
    protobuf_end(out, field, begin);
}

size_t protobuf_begin(Bytes *out) { return out->size; }

/* The length stands before the message and is known only now: the message is moved behind it. */
void protobuf_end(Bytes *out, int field, size_t begin)
{
    size_t size = out->size - begin, end = out->size;
    tag(out, field, 2);
    protobuf_varint(out, size);
    uint8_t head[20];
    size_t length = out->size - end;
    memcpy(head, out->data + end, length);
    memmove(out->data + begin + length, out->data + begin, size);
    memcpy(out->data + begin, head, length);
}

/* ---- reading ---- */
static bool varint(uint64_t *number, const uint8_t *data, size_t size, size_t *at)
{
    *number = 0;
    for (int shift = 0; shift < 64 && *at < size; shift += 7) {
        uint8_t byte = data[(*at)++];
        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

bool protobuf_next(ProtobufField *f, const uint8_t *data, size_t size, size_t *at)
{
    uint64_t head, bytes;
    if (!varint(&head, data, size, at) || head >> 3 == 0 || head >> 3 > 0x1fffffff) return false;
    *f = (ProtobufField){ .field = (int)(head >> 3), .kind = (int)(head & 7) };
    if (f->kind == 0) return varint(&f->number, data, size, at);
    if (f->kind == 2 && !varint(&bytes, data, size, at)) return false;
    if (f->kind != 1 && f->kind != 2 && f->kind != 5) return false;
    if (f->kind != 2) bytes = f->kind == 1 ? 8 : 4;
    if (bytes > size - *at) return false;
    if (f->kind == 2) f->data = data + *at, f->size = bytes;
    for (size_t i = 0; f->kind != 2 && i < bytes; i++) f->number |= (uint64_t)data[*at + i] << 8 * i;
    *at += bytes;
    return true;
}
