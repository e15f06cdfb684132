#ifndef TEXT_SENTENCEPIECE_INSIDE_H
#define TEXT_SENTENCEPIECE_INSIDE_H
/* Shared by the files of sentencepiece: an open model, and the ids of one text as they come. */
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normal.h"
#include "text/sentencepiece_trie.h"
#include "text/tokenizer.h"

typedef struct {
    uint8_t   *data;                     /* the file */
    Model      model;
    Normaliser normaliser;
    Trie       trie, user;               /* all pieces; those of the user */
    bool       has_user, has_unused;
    bool       words; /* no piece goes on beyond the begin of a word: words are encoded alone */
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
} IdList;

/* Neighbouring unknowns are one id, or bytes. */
static inline void ids_add(IdList *list, int32_t id, const char *text, int64_t bytes)
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
static inline bool piece_in_text(const SentencePiece *sp, int32_t id)
{
    PieceKind kind = sp->model.piece[id].kind;
    return kind == PIECE_NORMAL || kind == PIECE_USER || kind == PIECE_UNUSED;
}

void sentencepiece_bpe    (IdList *list, const char *text, int64_t bytes);       /* text: normalised */
void sentencepiece_unigram(IdList *list, const char *text, int64_t bytes);
#endif
