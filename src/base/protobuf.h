#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H
/* The wire format of Protocol Buffers, both ways (protobuf.dev/programming-guides/encoding). A message is a
 * sequence of fields, each with its number, the kind of its value, and the value; a message in a message is a
 * value of kind PROTOBUF_BYTES. */
#include "base/buffer.h"
#include "base/reader.h"

typedef enum { PROTOBUF_VARINT = 0, PROTOBUF_64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_32 = 5 } ProtobufKind;

/* ---- writing: fields are appended; no memory ends the job, as logs are small ---- */
void    protobuf_varint (Buffer *out, uint64_t number);
void    protobuf_integer(Buffer *out, int field, int64_t value);
void    protobuf_double (Buffer *out, int field, double value);
void    protobuf_float  (Buffer *out, int field, float value);
void    protobuf_text   (Buffer *out, int field, const char *text);
/* A message in a message: its fields are those that are added between begin and end. begin returns a number
 * that end takes. */
int64_t protobuf_begin  (Buffer *out);
void    protobuf_end    (Buffer *out, int field, int64_t begin);

/* ---- reading ---- */
typedef struct {
    uint64_t     field;            /* its number in the .proto file, 1 to 2^29 - 1 */
    ProtobufKind kind;
    uint64_t     number;           /* the value, except of PROTOBUF_BYTES; the bits of a float or double */
    ByteReader   bytes;            /* the value of PROTOBUF_BYTES: a message or a text; otherwise empty */
} ProtobufField;

/* The next field of a message, of which reader_left is above 0. BAD_FILE where its bytes are no field, or a
 * group, which proto3 no longer has. */
Status protobuf_next(ProtobufField *field, ByteReader *message);
/* False at the end of the message, and where its bytes are no field. */
static inline bool protobuf_has_next(ProtobufField *field, ByteReader *message)
{
    return reader_left(message) && protobuf_next(field, message) == OK;
}
/* The value of kind PROTOBUF_32 as a float. */
float  protobuf_float_of(const ProtobufField *field);
#endif
