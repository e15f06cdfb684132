#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_INTERNAL_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_INTERNAL_H
/* Shared by the files of the sentencepiece tokenizer: an open model, and the output of one encoding. */
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_normalizer.h"
#include "text/sentencepiece/sentencepiece_trie.h"
#include "text/tokenizer.h"

typedef struct {
    uint8_t   *data;                     /* a copy of the file; the model points into it */
    SentencePieceModel      model;
    SentencePieceNormalizer normalizer;
    SentencePieceTrie       trie, user;  /* all pieces; the user-defined ones */
    bool       has_user, has_unused;
    bool       by_word;                  /* no piece spans the beginning of a word, so words can be encoded
                                          * separately */
    int32_t    unknown, byte_id[256];    /* byte_id: -1: there is no piece for the byte */
    float      min_score;                /* the lowest score of a normal piece */
    char      *name, *texts;             /* texts: the decoded text of all pieces */
    TextPiece *decoded;                  /* [piece], into texts */
} SentencePiece;

typedef struct {
    const SentencePiece *sp;
    int32_t *ids;                        /* of the caller */
    int64_t  count;
    bool     after_unknown;              /* the last piece was unknown text */
} SentencePieceIds;

/* Appends a piece of the text. Consecutive unknown pieces give one unknown id, or the ids of their bytes
 * where the model has byte fallback. */
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

/* Whether a text may be segmented into this piece; control, unknown and byte pieces never match text. */
static inline bool sentencepiece_in_text(const SentencePiece *sp, int32_t id)
{
    SentencePieceKind kind = sp->model.piece[id].kind;
    return kind == SP_PIECE_NORMAL || kind == SP_PIECE_USER || kind == SP_PIECE_UNUSED;
}

/* Append the ids of a normalized text. */
void sentencepiece_bpe    (SentencePieceIds *list, const char *text, int64_t bytes);
void sentencepiece_unigram(SentencePieceIds *list, const char *text, int64_t bytes);
#endif
