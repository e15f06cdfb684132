/* Fields of Protocol Buffers, appended to a buffer and read one after another. */
#include "base/protobuf.h"

#include <string.h>

enum { FIELD_MOST = (1 << 29) - 1, VARINT_BYTES = 10 };

/* ---- writing ---- */
/* Seven bits a byte, the lowest first; the highest bit says that more follow. */
void protobuf_varint(Buffer *out, uint64_t number)
{
    for (; number >= 128; number >>= 7) buffer_add_number_or_stop(out, number | 128, 1);
    buffer_add_number_or_stop(out, number, 1);
}

static void tag(Buffer *out, int field, ProtobufKind kind)
{
    protobuf_varint(out, (uint64_t)field << 3 | kind);
}

void protobuf_integer(Buffer *out, int field, int64_t value)
{
    tag(out, field, PROTOBUF_VARINT);
    protobuf_varint(out, (uint64_t)value);
}

void protobuf_double(Buffer *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(out, field, PROTOBUF_64);
    buffer_add_number_or_stop(out, bits, 8);
}

void protobuf_float(Buffer *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(out, field, PROTOBUF_32);
    buffer_add_number_or_stop(out, bits, 4);
}

void protobuf_text(Buffer *out, int field, const char *text)
{
    int64_t bytes = (int64_t)strlen(text);
    tag(out, field, PROTOBUF_BYTES);
    protobuf_varint(out, (uint64_t)bytes);
    buffer_add_or_stop(out, text, bytes);
}

int64_t protobuf_begin(Buffer *out) { return out->bytes; }

/* The length precedes the message and is known only now, so the message is moved to make room for it. */
void protobuf_end(Buffer *out, int field, int64_t begin)
{
    int64_t end = out->bytes;
    char    head[2 * VARINT_BYTES];
    tag(out, field, PROTOBUF_BYTES);
    protobuf_varint(out, (uint64_t)(end - begin));
    size_t length = (size_t)(out->bytes - end);
    memcpy(head, out->text + end, length);
    memmove(out->text + begin + length, out->text + begin, (size_t)(end - begin));
    memcpy(out->text + begin, head, length);
}

/* ---- reading ---- */
static Status varint_read(uint64_t *value, ByteReader *r)
{
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (!reader_left(r)) return reader_refuse(r, "a number has no end");
        uint8_t byte = *r->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return OK;
    }
    return reader_refuse(r, "a number of more than 64 bits");
}

Status protobuf_next(ProtobufField *f, ByteReader *r)
{
    uint64_t head, length;
    const uint8_t *at = NULL;
    *f = (ProtobufField){ .bytes = *r };
    f->bytes.end = f->bytes.at;
    TRY(varint_read(&head, r));
    f->field = head >> 3;
    f->kind  = (ProtobufKind)(head & 7);
    if (f->field == 0 || f->field > FIELD_MOST) return reader_refuse(r, "a field without a valid number");
    switch (f->kind) {
    case PROTOBUF_VARINT: return varint_read(&f->number, r);
    case PROTOBUF_64:     return reader_number(&f->number, r, 8, "a field");
    case PROTOBUF_32:     return reader_number(&f->number, r, 4, "a field");
    case PROTOBUF_BYTES:
        TRY(varint_read(&length, r));
        TRY(reader_bytes(&at, r, length, "a field"));
        f->bytes.at  = at;
        f->bytes.end = r->at;
        return OK;
    }
    return reader_refuse(r, "an unknown wire type");
}

float protobuf_float_of(const ProtobufField *f)
{
    uint32_t bits = (uint32_t)f->number;
    float    value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
