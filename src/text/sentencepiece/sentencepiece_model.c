/* Reads a sentencepiece model: the fields of ModelProto by their numbers in sentencepiece_model.proto. */
#include "text/sentencepiece/sentencepiece_model.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/protobuf.h"

static Status kind_check(const ByteReader *r, const ProtobufField *f, ProtobufKind kind)
{
    return f->kind == kind ? OK : reader_refuse(r, "a field of another type than its number says");
}

static Status text_read(ByteSpan *text, const ByteReader *r, const ProtobufField *f)
{
    TRY(kind_check(r, f, PROTOBUF_BYTES));
    *text = (ByteSpan){ (const char *)f->bytes.at, reader_left(&f->bytes) };
    return OK;
}

static Status flag_read(bool *flag, const ByteReader *r, const ProtobufField *f)
{
    TRY(kind_check(r, f, PROTOBUF_VARINT));
    *flag = f->number;
    return OK;
}

/* ---- the messages ---- */

/* SentencePiece: piece, score, type */
static Status piece_read(SentencePieceEntry *p, ByteReader r)
{
    ProtobufField f;
    *p = (SentencePieceEntry){ .text = { "", 0 }, .kind = SP_PIECE_NORMAL };
    while (reader_left(&r)) {
        TRY(protobuf_next(&f, &r));
        switch (f.field) {
        case 1: TRY(text_read(&p->text, &r, &f)); break;
        case 2: TRY(kind_check(&r, &f, PROTOBUF_32)); p->score = protobuf_float_of(&f); break;
        case 3: TRY(kind_check(&r, &f, PROTOBUF_VARINT));
            if (f.number < SP_PIECE_NORMAL || f.number > SP_PIECE_BYTE)
                return reader_refuse(&r, "a piece of unknown kind");
            p->kind = (SentencePieceKind)f.number;
        }
    }
    if (!isfinite(p->score)) return reader_refuse(&r, "a score that is not finite");
    if (p->text.bytes == 0)  return reader_refuse(&r, "an empty piece");
    if (p->text.bytes > SENTENCEPIECE_BYTES_MAX) return reader_refuse(&r, "a piece of more than 1024 bytes");
    return OK;
}

static Status piece_add(SentencePieceModel *m, const ByteReader *r, ByteReader piece)
{
    if (m->pieces == SENTENCEPIECES_MAX) return reader_refuse(r, "more than 1048576 pieces");
    TRY(ARRAY_RESERVE(m->piece, m->capacity, m->pieces + 1));
    return piece_read(&m->piece[m->pieces++], piece);
}

/* TrainerSpec: model_type, treat_whitespace_as_suffix, byte_fallback, unk_surface, bos_piece, eos_piece */
static Status trainer_read(SentencePieceModel *m, ByteReader r)
{
    ProtobufField f;
    while (reader_left(&r)) {
        TRY(protobuf_next(&f, &r));
        switch (f.field) {
        case 3:  TRY(kind_check(&r, &f, PROTOBUF_VARINT)); m->kind = f.number < 5 ? (int)f.number : 0; break;
        case 24: TRY(flag_read(&m->space_last, &r, &f)); break;
        case 35: TRY(flag_read(&m->byte_fallback, &r, &f)); break;
        case 44: TRY(text_read(&m->unk_surface, &r, &f)); break;
        case 46: TRY(text_read(&m->bos, &r, &f)); break;
        case 47: TRY(text_read(&m->eos, &r, &f));
        }
    }
    return OK;
}

/* NormalizerSpec: precompiled_charsmap, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces */
static Status normalizer_read(SentencePieceModel *m, ByteReader r)
{
    ProtobufField f;
    while (reader_left(&r)) {
        TRY(protobuf_next(&f, &r));
        switch (f.field) {
        case 2: TRY(text_read(&m->charsmap, &r, &f)); break;
        case 3: TRY(flag_read(&m->dummy_prefix, &r, &f)); break;
        case 4: TRY(flag_read(&m->drop_spaces, &r, &f)); break;
        case 5: TRY(flag_read(&m->escape_spaces, &r, &f));
        }
    }
    return OK;
}

static Status denormalizer_read(SentencePieceModel *m, ByteReader r)
{
    ProtobufField f;
    while (reader_left(&r)) {
        TRY(protobuf_next(&f, &r));
        if (f.field == 2 && f.kind == PROTOBUF_BYTES) TRY(text_read(&m->denormalizer, &r, &f));
    }
    return OK;
}

static Status message_read(SentencePieceModel *m, ByteReader *r)
{
    ProtobufField f;
    while (reader_left(r)) {
        TRY(protobuf_next(&f, r));
        if (f.field > 5) continue;                 /* extensions */
        TRY(kind_check(r, &f, PROTOBUF_BYTES));
        switch (f.field) {
        case 1: TRY(piece_add(m, r, f.bytes)); break;
        case 2: TRY(trainer_read(m, f.bytes)); break;
        case 3: TRY(normalizer_read(m, f.bytes)); break;
        case 5: TRY(denormalizer_read(m, f.bytes));
        }
    }
    return m->pieces ? OK : reader_refuse(r, "no pieces");
}

Status sentencepiece_model_read(SentencePieceModel *m, const void *data, size_t bytes, const char *path)
{
    /* the defaults of the proto file */
    static const char surface[] = " \xE2\x81\x87 ", bos[] = "<s>", eos[] = "</s>";
    *m = (SentencePieceModel){ .kind = SP_MODEL_UNIGRAM, .unk_surface = { surface, 5 }, .bos = { bos, 3 },
                  .eos = { eos, 4 }, .dummy_prefix = true, .drop_spaces = true, .escape_spaces = true };
    ByteReader r = reader_open(data, bytes, path, "it is not a sentencepiece model, or is truncated");
    Status status = message_read(m, &r);
    if (status != OK) sentencepiece_model_close(m);
    return status;
}

void sentencepiece_model_close(SentencePieceModel *m)
{
    free(m->piece);
    *m = (SentencePieceModel){ 0 };
}
