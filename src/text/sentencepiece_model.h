#ifndef TEXT_SENTENCEPIECE_MODEL_H
#define TEXT_SENTENCEPIECE_MODEL_H
/* A sentencepiece .model file (protocol buffers, message ModelProto) as it is read: nothing in it is
 * believed. Lengths stay within what is left, unknown fields are passed over, scores are finite, kinds are
 * known. Texts point into the file's bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { PIECES_MOST = 1 << 20, PIECE_BYTES_MOST = 1024 };
typedef enum {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER,
    PIECE_UNUSED,
    PIECE_BYTE
} PieceKind;
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2, MODEL_WORD = 3, MODEL_CHAR = 4 };

typedef struct { const char *data; size_t bytes; } Span;
typedef struct { Span text; float score; PieceKind kind; } Piece;

typedef struct {
    Piece *piece;
    int32_t pieces, room;
    int    kind;                             /* MODEL_... */
    bool   space_last, byte_fallback;        /* treat_whitespace_as_suffix */
    Span   unk_surface, eos;
    Span   charsmap, denormaliser;           /* precompiled, of the normaliser and of the denormaliser */
    bool   dummy_prefix, drop_spaces, escape_spaces;
} Model;

/* data lives as long as the model; path: as messages say it */
Status piece_model_read (Model *model, const void *data, size_t bytes, const char *path);
void   piece_model_close(Model *model);
#endif
