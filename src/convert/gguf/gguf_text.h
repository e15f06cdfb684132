#ifndef CONVERT_GGUF_GGUF_TEXT_H
#define CONVERT_GGUF_GGUF_TEXT_H
/* The bytes of a GGUF file's keys and values, which grow. A failure is kept in `status`, and what follows it
 * is not written. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

typedef struct { Buffer text; int64_t keys; Status status; } GgufText;
typedef enum { GGUF_UINT8 = 0, GGUF_UINT32 = 4, GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_BOOL = 7,
               GGUF_STRING = 8, GGUF_ARRAY = 9 } GgufKind;
void gguf_put       (GgufText *out, const void *data, size_t bytes);
void gguf_put_number(GgufText *out, uint64_t value, int bytes);                /* little-endian */
void gguf_put_real  (GgufText *out, double value);                             /* as FLOAT32 */
void gguf_put_string(GgufText *out, const char *text, size_t bytes);           /* its length and its bytes */
void gguf_key       (GgufText *out, const char *key, GgufKind kind);           /* its value follows */
void gguf_key_array (GgufText *out, const char *key, GgufKind kind, int64_t count);    /* its items follow */
void gguf_key_string(GgufText *out, const char *key, const char *text);
void gguf_key_uint  (GgufText *out, const char *key, int64_t value);
void gguf_key_real  (GgufText *out, const char *key, double value);
void gguf_key_bool  (GgufText *out, const char *key, bool value);
#endif
