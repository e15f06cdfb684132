/* Streaming detokenizer: holds back the first bytes of an incomplete UTF-8 character until the ids after it
 * complete it, or show that it is broken. */
#include "text/decoder.h"

/* The length of a character by its first byte; 1 for a byte that begins none. */
static int character_bytes(uint8_t lead)
{
    return lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static bool is_continuation(uint8_t byte)    { return (byte & 0xC0) == 0x80; }

static void held_write(Decoder *d, FILE *out)
{
    fwrite(d->held, 1, (size_t)d->count, out);
    d->count = 0;
}

/* Moves continuation bytes from the piece to the held character, and writes it once it is complete or the
 * piece continues with something else. */
static void held_complete(Decoder *d, FILE *out, TextPiece *piece)
{
    while (d->count && piece->bytes && is_continuation((uint8_t)*piece->text)) {
        d->held[d->count++] = *piece->text;
        piece->text++;
        piece->bytes--;
        if (d->count == character_bytes((uint8_t)d->held[0])) held_write(d, out);
    }
    if (piece->bytes) held_write(d, out);                               /* complete, or broken */
}

/* The number of bytes at the end of the piece that are the beginning of an incomplete character, 0 to 3 */
static int incomplete_bytes(TextPiece piece)
{
    for (int back = 1; back <= 3 && back <= piece.bytes; back++) {
        uint8_t byte = (uint8_t)piece.text[piece.bytes - back];
        if (!is_continuation(byte)) return character_bytes(byte) > back ? back : 0;
    }
    return 0;
}

static void piece_write(Decoder *d, FILE *out, TextPiece piece)
{
    held_complete(d, out, &piece);
    int keep = incomplete_bytes(piece);
    fwrite(piece.text, 1, (size_t)(piece.bytes - keep), out);
    for (int i = 0; i < keep; i++) d->held[d->count++] = piece.text[piece.bytes - keep + i];
}

static void placed_write(Decoder *d, FILE *out, int32_t id, int place)
{
    TextPiece piece = d->tokenizer->decode_at(d->tokenizer, id, place | (d->continues ? 0 : PIECE_FIRST));
    if (!piece.text) return;
    d->continues = true;
    if (piece.bytes) piece_write(d, out, piece);
}

/* Where the last id of a text has another text, each waits for the next one. */
static void placed_put(Decoder *d, FILE *out, int32_t id)
{
    const Tokenizer *t = d->tokenizer;
    if (!t->decodes_last) {
        placed_write(d, out, id, 0);
        return;
    }
    if (!t->decode_at(t, id, 0).text) return;
    if (d->waits) placed_write(d, out, d->waiting, 0);
    d->waits   = true;
    d->waiting = id;
}

void decoder_put(Decoder *d, FILE *out, int32_t id)
{
    if (d->tokenizer->decode_at) {
        placed_put(d, out, id);
        return;
    }
    TextPiece piece = d->tokenizer->decode(d->tokenizer, id);
    if (piece.bytes == 0) return;
    if (!d->continues) piece.text += piece.prefix, piece.bytes -= piece.prefix;
    d->continues |= piece.bytes || !d->tokenizer->drops_prefixes;
    piece_write(d, out, piece);
}

void decoder_end(Decoder *d, FILE *out)
{
    if (d->waits) placed_write(d, out, d->waiting, PIECE_LAST);
    d->waits = false;
    held_write(d, out);
    d->continues = false;
}
