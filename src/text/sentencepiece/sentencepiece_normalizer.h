#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_NORMALIZER_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_NORMALIZER_H
/* Text as a sentencepiece model wants it: characters replaced by the longest matching rule of its table,
 * spaces dropped at both ends and doubled ones too, written as U+2581, with one in front. User-defined pieces
 * pass unchanged. */
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_trie.h"

#define SPACE_MARK "\xE2\x96\x81"              /* U+2581 */
enum { SPACE_MARK_BYTES = 3 };

typedef struct {
    const uint8_t *unit;                       /* the double array: little-endian words of 32 bits */
    uint32_t       units;
    ByteSpan           texts;                      /* replacements, each up to its zero */
    const SentencePieceTrie    *user;                       /* NULL: no user-defined pieces */
    bool           dummy_prefix, space_last, drop_spaces, escape_spaces;
} SentencePieceNormalizer;

Status  sentencepiece_normalizer_open(SentencePieceNormalizer *n, const SentencePieceModel *m, const SentencePieceTrie *user, const char *path);
/* Writes the normalized text, at most 64 bytes for each of text and SPACE_MARK_BYTES, or only counts its
 * bytes where out is NULL. -1: a rule of the model makes more of what it replaces; what is counted is
 * always written */
int64_t sentencepiece_normalizer_apply(const SentencePieceNormalizer *n, char *out, const char *text, int64_t bytes);

/* Bytes of the character by its first byte alone */
static inline int64_t utf8_bytes_of_lead(char first)
{
    return "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4"[(unsigned char)first >> 4];
}
/* Bytes of the longest user-defined piece that text begins with; 0: none */
int64_t user_piece_bytes(const SentencePieceTrie *user, const char *text, int64_t bytes);
#endif
