#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_MODEL_H
/* A sentencepiece .model file as it is read, without trusting it: a protocol-buffers message ModelProto
 * (sentencepiece_model.proto). Lengths are within their message, unknown fields are skipped, scores are
 * finite, kinds are known. Texts point into the file's bytes. An open model takes at most 120 times the size
 * of its file: up to 80 bytes per byte of its pieces for two tries, up to 30 for pieces and their decoded
 * texts, and the copy of the file. */
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

typedef struct { const char *data; size_t bytes; } ByteSpan;        /* not zero-terminated; belongs to the
                                                                     * file's data */
typedef struct { ByteSpan text; float score; SentencePieceKind kind; } SentencePieceEntry;

/* Defaults, where the file has no value, are those of sentencepiece_model.proto. */
typedef struct {
    SentencePieceEntry *piece;               /* [pieces]; the index is the id */
    int32_t  pieces, capacity;
    int      kind;                           /* SP_MODEL_UNIGRAM, ...; 0: unknown */
    bool     space_last, byte_fallback;      /* space_last: treat_whitespace_as_suffix, the mark follows a
                                              * word */
    ByteSpan unk_surface, bos, eos;          /* what the unknown piece decodes to; the names of the pieces
                                              * that begin and end a text */
    ByteSpan charsmap, denormalizer;         /* precompiled rules of the normalizer and of the denormalizer */
    /* add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces */
    bool     dummy_prefix, drop_spaces, escape_spaces;
} SentencePieceModel;

/* data must outlive the model; path is for messages. BAD_FILE names the malformed byte; NO_MEMORY. */
Status sentencepiece_model_read (SentencePieceModel *model, const void *data, size_t bytes, const char *path);
void   sentencepiece_model_close(SentencePieceModel *model);
#endif
