#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_INTERNAL_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_INTERNAL_H
/* Shared by the files of sentencepiece: an open model, and the ids of one text as they come. */
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_normalizer.h"
#include "text/sentencepiece/sentencepiece_trie.h"
#include "text/tokenizer.h"

typedef struct {
    uint8_t   *data;                     /* the file */
    SentencePieceModel      model;
    SentencePieceNormalizer normalizer;
    SentencePieceTrie       trie, user;               /* all pieces; those of the user */
    bool       has_user, has_unused;
    bool       by_word; /* no piece goes on beyond the begin of a word: words are encoded alone */
    int32_t    unknown, byte_id[256];
    float      min_score;                /* of normal pieces */
    char      *name, *texts;             /* texts: of all pieces, as they are decoded */
    TextPiece *decoded;
} SentencePiece;

typedef struct {
    const SentencePiece *sp;
    int32_t *ids;
    int64_t  count;
    bool     after_unknown;
} SentencePieceIds;

/* Neighbouring unknowns are one id, or bytes. */
static inline void ids_add(SentencePieceIds *list, int32_t id, const char *text, int64_t bytes)
{
    const SentencePiece *sp = list->sp;
    bool unknown = id == sp->unknown;
    if (unknown && sp->model.byte_fallback)
        for (int64_t i = 0; i < bytes; i++) list->ids[list->count++] = sp->byte_id[(unsigned char)text[i]];
    else if (!unknown || !list->after_unknown)
        list->ids[list->count++] = id;
    list->after_unknown = unknown;
}

/* Pieces a text may be cut into; the others have an id and no text */
static inline bool sentencepiece_in_text(const SentencePiece *sp, int32_t id)
{
    SentencePieceKind kind = sp->model.piece[id].kind;
    return kind == SP_PIECE_NORMAL || kind == SP_PIECE_USER || kind == SP_PIECE_UNUSED;
}

void sentencepiece_bpe    (SentencePieceIds *list, const char *text, int64_t bytes);       /* text: normalized */
void sentencepiece_unigram(SentencePieceIds *list, const char *text, int64_t bytes);
#endif
