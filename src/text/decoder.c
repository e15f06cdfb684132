#include "text/decoder.h"

static int  utf8_bytes_of_lead(uint8_t lead) { return lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }
static bool is_continuation(uint8_t byte)    { return (byte & 0xC0) == 0x80; }

static void held_write(Decoder *d, FILE *out)
{
    fwrite(d->held, 1, (size_t)d->count, out);
    d->count = 0;
}

/* What the held character wants of the piece */
static void held_complete(Decoder *d, FILE *out, TextPiece *piece)
{
    while (d->count && piece->bytes && is_continuation((uint8_t)*piece->text)) {
        d->held[d->count++] = *piece->text;
        piece->text++;
        piece->bytes--;
        if (d->count == utf8_bytes_of_lead((uint8_t)d->held[0])) held_write(d, out);
    }
    if (piece->bytes) held_write(d, out);                               /* whole, or broken */
}

/* How many bytes at the end begin a character of more */
static int incomplete_bytes(TextPiece piece)
{
    for (int back = 1; back <= 3 && back <= piece.bytes; back++) {
        uint8_t byte = (uint8_t)piece.text[piece.bytes - back];
        if (!is_continuation(byte)) return utf8_bytes_of_lead(byte) > back ? back : 0;
    }
    return 0;
}

void decoder_put(Decoder *d, FILE *out, int32_t id)
{
    TextPiece piece = d->tokenizer->decode(d->tokenizer, id);
    if (piece.bytes == 0) return;
    if (!d->goes_on) piece.text += piece.lead, piece.bytes -= piece.lead;
    d->goes_on |= piece.bytes || !d->tokenizer->leads;
    held_complete(d, out, &piece);
    int keep = incomplete_bytes(piece);
    fwrite(piece.text, 1, (size_t)(piece.bytes - keep), out);
    for (int i = 0; i < keep; i++) d->held[d->count++] = piece.text[piece.bytes - keep + i];
}

void decoder_end(Decoder *d, FILE *out)
{
    held_write(d, out);
    d->goes_on = false;
}
