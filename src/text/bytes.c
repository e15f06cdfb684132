/* The tokenizer `bytes`: an id is the value of a byte. */
#include "text/bytes.h"

static int64_t bytes_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    (void)t;
    for (int64_t i = 0; i < bytes; i++) ids[i] = (unsigned char)text[i];
    return bytes;
}

/* The caller may keep the text of a piece, so decode points into this table of all bytes. */
#define ROW4(b)  (char)(b), (char)(b + 1), (char)(b + 2), (char)(b + 3)
#define ROW16(b) ROW4(b), ROW4(b + 4), ROW4(b + 8), ROW4(b + 12)
#define ROW64(b) ROW16(b), ROW16(b + 16), ROW16(b + 32), ROW16(b + 48)
static const char every_byte[256] = { ROW64(0), ROW64(64), ROW64(128), ROW64(192) };

static TextPiece bytes_decode(const Tokenizer *t, int32_t id)
{
    (void)t;
    if (id == BYTES_EOD) return (TextPiece){ .text = "" };
    return (TextPiece){ .text = every_byte + id, .bytes = 1 };
}

const Tokenizer bytes_tokenizer = {
    .name = "bytes", .vocabulary = BYTES_IDS, .eod = BYTES_EOD,
    .encode = bytes_encode, .decode = bytes_decode,
};
