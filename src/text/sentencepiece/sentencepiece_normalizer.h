#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_NORMALIZER_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_NORMALIZER_H
/* The normalizer of a sentencepiece model: replaces characters by the longest matching rule of the model's
 * table, drops leading, trailing and repeated spaces, writes each remaining space as U+2581 and adds one in
 * front. User-defined pieces pass unchanged. */
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_trie.h"

#define SPACE_MARK "\xE2\x96\x81"              /* U+2581 */
enum { SPACE_MARK_BYTES = 3 };

typedef struct {
    const uint8_t *unit;                       /* [units]: a double-array trie (Darts), little-endian words
                                                * of 32 bits */
    uint32_t       units;                      /* 0: the model has no rules */
    ByteSpan       texts;                      /* the replacements, each zero-terminated */
    const SentencePieceTrie *user;             /* borrowed; NULL: no user-defined pieces */
    bool           dummy_prefix, space_last, drop_spaces, escape_spaces;        /* as in SentencePieceModel */
} SentencePieceNormalizer;

/* The model's data and `user` must outlive the normalizer. BAD_FILE where the table is truncated. */
Status  sentencepiece_normalizer_open(SentencePieceNormalizer *n, const SentencePieceModel *m,
                                      const SentencePieceTrie *user, const char *path);
/* Writes the normalized text, of at most 64 bytes for each byte of text and SPACE_MARK_BYTES more, and
 * returns its length in bytes; only counts where out is NULL, and counts what it would write. -1: a rule
 * writes more than 64 times the bytes that it replaces. */
int64_t sentencepiece_normalizer_apply(const SentencePieceNormalizer *n, char *out, const char *text,
                                       int64_t bytes);

/* The length of a character by its first byte alone, as sentencepiece has it, also in invalid UTF-8 */
static inline int64_t utf8_bytes_of_lead(char first)
{
    return "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4"[(unsigned char)first >> 4];
}
/* The length of the longest user-defined piece that text begins with; 0: none. user may be NULL. */
int64_t user_piece_bytes(const SentencePieceTrie *user, const char *text, int64_t bytes);
#endif
