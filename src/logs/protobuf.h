#ifndef LOGS_PROTOBUF_H
#define LOGS_PROTOBUF_H
/* The wire format of Protocol Buffers, as far as log files need it: fields are appended to a growing buffer,
 * and read one after another. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are owned; it begins as { 0 }. A buffer that was as large before does not allocate again. */
typedef struct { uint8_t *data; size_t size, room; } Bytes;
void bytes_add (Bytes *bytes, const void *data, size_t count);
/* The lowest `count` bytes of the number, the lowest first. */
void bytes_add_little_endian(Bytes *bytes, uint64_t number, int count);
void bytes_free(Bytes *bytes);

void   protobuf_varint (Bytes *out, uint64_t number);
void   protobuf_integer(Bytes *out, int field, int64_t value);
void   protobuf_double (Bytes *out, int field, double value);
void   protobuf_float  (Bytes *out, int field, float value);
void   protobuf_text   (Bytes *out, int field, const char *text);
/* A message in a message: its fields are what is added until protobuf_end with the number that begin
 * returned. */
size_t protobuf_begin(Bytes *out);
void   protobuf_end  (Bytes *out, int field, size_t begin);

/* kind: 0 varint, 1 eight bytes, 2 a message or text, 5 four bytes. number: of kind 0, 1 and 5; data, size:
 * of kind 2, inside the bytes that are read. */
typedef struct { int field, kind; uint64_t number; const uint8_t *data; size_t size; } ProtobufField;
/* The field at *at, after which *at is moved. False at the end, or where the bytes are no field. */
bool protobuf_next(ProtobufField *field, const uint8_t *data, size_t size, size_t *at);
#endif
