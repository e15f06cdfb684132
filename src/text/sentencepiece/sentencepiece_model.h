#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H
/* A sentencepiece .model file (protocol buffers, message ModelProto) as it is read: nothing in it is
 * believed. Lengths stay within what is left, unknown fields are passed over, scores are finite, kinds are
 * known. Texts point into the file's bytes. An open model takes at most 120 times the bytes of its file:
 * up to 80 a byte of its pieces for two tries, up to 30 for pieces and their texts, and the copy. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { SENTENCEPIECES_MAX = 1 << 20, SENTENCEPIECE_BYTES_MAX = 1024 };
typedef enum {
    SP_PIECE_NORMAL = 1,
    SP_PIECE_UNKNOWN,
    SP_PIECE_CONTROL,
    SP_PIECE_USER,
    SP_PIECE_UNUSED,
    SP_PIECE_BYTE
} SentencePieceKind;
enum { SP_MODEL_UNIGRAM = 1, SP_MODEL_BPE = 2, SP_MODEL_WORD = 3, SP_MODEL_CHAR = 4 };

typedef struct { const char *data; size_t bytes; } ByteSpan;
typedef struct { ByteSpan text; float score; SentencePieceKind kind; } SentencePieceEntry;

typedef struct {
    SentencePieceEntry *piece;
    int32_t pieces, capacity;
    int    kind;                             /* MODEL_... */
    bool   space_last, byte_fallback;        /* treat_whitespace_as_suffix */
    ByteSpan   unk_surface, eos;
    ByteSpan   charsmap, denormalizer;           /* precompiled, of the normalizer and of the denormalizer */
    bool   dummy_prefix, drop_spaces, escape_spaces;
} SentencePieceModel;

/* data lives as long as the model; path: as messages say it */
Status sentencepiece_model_read (SentencePieceModel *model, const void *data, size_t bytes, const char *path);
void   sentencepiece_model_close(SentencePieceModel *model);
#endif
