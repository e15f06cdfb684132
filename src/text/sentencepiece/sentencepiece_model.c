/* Reads a sentencepiece model: the wire format of protocol buffers, and the fields of ModelProto by their
 * numbers in sentencepiece_model.proto. */
#include "text/sentencepiece/sentencepiece_model.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the wire format: a message is a sequence of fields (number, wire type, value); messages nest two
 * levels here ---- */

/* A message being read: at .. end. begin: of the file, for messages */
typedef struct { const uint8_t *at, *end, *begin; const char *path; } ProtobufReader;
typedef struct { uint64_t number, varint; ByteSpan text; float real; int type; } ProtobufField;
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_TEXT = 2, WIRE_32 = 5 };

static Status broken(const ProtobufReader *w, const char *why)
{
    return fail(BAD_FILE, "%s: %s at byte %td; it is not a sentencepiece model, or is truncated", w->path,
                why,
                w->at - w->begin);
}

static Status varint_read(uint64_t *value, ProtobufReader *w)
{
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->at == w->end) return broken(w, "a number has no end");
        uint8_t byte = *w->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return OK;
    }
    return broken(w, "a number of more than 64 bits");
}

static Status span_read(ByteSpan *span, ProtobufReader *w, uint64_t bytes)
{
    if (bytes > (uint64_t)(w->end - w->at)) return broken(w, "a length beyond the end");
    *span = (ByteSpan){ (const char *)w->at, (size_t)bytes };
    w->at += bytes;
    return OK;
}

static Status field_read(ProtobufField *f, ProtobufReader *w)
{
    uint64_t tag, length;
    *f = (ProtobufField){ 0 };
    TRY(varint_read(&tag, w));
    f->number = tag >> 3;
    f->type   = (int)(tag & 7);
    if (f->number == 0) return broken(w, "field number 0");
    switch (f->type) {
    case WIRE_VARINT: return varint_read(&f->varint, w);
    case WIRE_64:     return span_read(&f->text, w, 8);
    case WIRE_TEXT:
        TRY(varint_read(&length, w));
        return span_read(&f->text, w, length);
    case WIRE_32:
        TRY(span_read(&f->text, w, 4));
        uint32_t bits = 0;
        for (int i = 3; i >= 0; i--) bits = bits << 8 | (uint8_t)f->text.data[i];
        memcpy(&f->real, &bits, sizeof bits);
        return OK;
    }
    return broken(w, "an unknown wire type");
}

/* A reader of the message that is the value of a field */
static ProtobufReader reader_inside(const ProtobufReader *w, ByteSpan text)
{
    const uint8_t *data = (const uint8_t *)text.data;
    return (ProtobufReader){ data, data + text.bytes, w->begin, w->path };
}

static Status type_check(const ProtobufReader *w, const ProtobufField *f, int type)
{
    return f->type == type ? OK : broken(w, "a field of another type than its number says");
}

/* ---- the messages ---- */

/* SentencePiece: piece, score, type */
static Status piece_read(SentencePieceEntry *p, ProtobufReader w)
{
    ProtobufField f;
    *p = (SentencePieceEntry){ .text = { "", 0 }, .kind = SP_PIECE_NORMAL };
    while (w.at < w.end) {
        TRY(field_read(&f, &w));
        switch (f.number) {
        case 1: TRY(type_check(&w, &f, WIRE_TEXT));   p->text  = f.text; break;
        case 2: TRY(type_check(&w, &f, WIRE_32));     p->score = f.real; break;
        case 3: TRY(type_check(&w, &f, WIRE_VARINT));
            if (f.varint < SP_PIECE_NORMAL || f.varint > SP_PIECE_BYTE)
                return broken(&w, "a piece of unknown kind");
            p->kind = (SentencePieceKind)f.varint;
        }
    }
    if (!isfinite(p->score)) return broken(&w, "a score that is not finite");
    if (p->text.bytes == 0)  return broken(&w, "an empty piece");
    if (p->text.bytes > SENTENCEPIECE_BYTES_MAX) return broken(&w, "a piece of more than 1024 bytes");
    return OK;
}

static Status piece_add(SentencePieceModel *m, const ProtobufReader *w, ByteSpan text)
{
    if (m->pieces == SENTENCEPIECES_MAX) return broken(w, "more than 1048576 pieces");
    if (m->pieces == m->capacity) {
        int32_t capacity  = m->capacity ? 2 * m->capacity : 1024;
        SentencePieceEntry  *grown = realloc(m->piece, (size_t)capacity * sizeof *grown);
        if (!grown) return fail(NO_MEMORY, "%s: no memory for %d pieces", w->path, capacity);
        m->piece = grown;
        m->capacity  = capacity;
    }
    return piece_read(&m->piece[m->pieces++], reader_inside(w, text));
}

/* TrainerSpec: model_type, treat_whitespace_as_suffix, byte_fallback, unk_surface, bos_piece, eos_piece */
static Status trainer_read(SentencePieceModel *m, ProtobufReader w)
{
    ProtobufField f;
    while (w.at < w.end) {
        TRY(field_read(&f, &w));
        switch (f.number) {
        case 3:  TRY(type_check(&w, &f, WIRE_VARINT)); m->kind = f.varint < 5 ? (int)f.varint : 0; break;
        case 24: TRY(type_check(&w, &f, WIRE_VARINT)); m->space_last    = f.varint; break;
        case 35: TRY(type_check(&w, &f, WIRE_VARINT)); m->byte_fallback = f.varint; break;
        case 44: TRY(type_check(&w, &f, WIRE_TEXT));   m->unk_surface   = f.text; break;
        case 46: TRY(type_check(&w, &f, WIRE_TEXT));   m->bos           = f.text; break;
        case 47: TRY(type_check(&w, &f, WIRE_TEXT));   m->eos           = f.text;
        }
    }
    return OK;
}

/* NormalizerSpec: precompiled_charsmap, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces */
static Status normalizer_read(SentencePieceModel *m, ProtobufReader w)
{
    ProtobufField f;
    while (w.at < w.end) {
        TRY(field_read(&f, &w));
        switch (f.number) {
        case 2: TRY(type_check(&w, &f, WIRE_TEXT));   m->charsmap      = f.text; break;
        case 3: TRY(type_check(&w, &f, WIRE_VARINT)); m->dummy_prefix  = f.varint; break;
        case 4: TRY(type_check(&w, &f, WIRE_VARINT)); m->drop_spaces   = f.varint; break;
        case 5: TRY(type_check(&w, &f, WIRE_VARINT)); m->escape_spaces = f.varint;
        }
    }
    return OK;
}

static Status denormalizer_read(SentencePieceModel *m, ProtobufReader w)
{
    ProtobufField f;
    while (w.at < w.end) {
        TRY(field_read(&f, &w));
        if (f.number == 2 && f.type == WIRE_TEXT) m->denormalizer = f.text;
    }
    return OK;
}

static Status message_read(SentencePieceModel *m, ProtobufReader *w)
{
    ProtobufField f;
    while (w->at < w->end) {
        TRY(field_read(&f, w));
        if (f.number == 0 || f.number > 5) continue;                 /* extensions */
        TRY(type_check(w, &f, WIRE_TEXT));
        switch (f.number) {
        case 1: TRY(piece_add(m, w, f.text)); break;
        case 2: TRY(trainer_read(m, reader_inside(w, f.text))); break;
        case 3: TRY(normalizer_read(m, reader_inside(w, f.text))); break;
        case 5: TRY(denormalizer_read(m, reader_inside(w, f.text)));
        }
    }
    return m->pieces ? OK : broken(w, "no pieces");
}

Status sentencepiece_model_read(SentencePieceModel *m, const void *data, size_t bytes, const char *path)
{
    /* the defaults of the proto file */
    static const char surface[] = " \xE2\x81\x87 ", bos[] = "<s>", eos[] = "</s>";
    *m = (SentencePieceModel){ .kind = SP_MODEL_UNIGRAM, .unk_surface = { surface, 5 }, .bos = { bos, 3 },
                  .eos = { eos, 4 }, .dummy_prefix = true, .drop_spaces = true, .escape_spaces = true };
    ProtobufReader w = { data, (const uint8_t *)data + bytes, data, path };
    Status status = message_read(m, &w);
    if (status != OK) sentencepiece_model_close(m);
    return status;
}

void sentencepiece_model_close(SentencePieceModel *m)
{
    free(m->piece);
    *m = (SentencePieceModel){ 0 };
}
