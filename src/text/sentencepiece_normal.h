#ifndef TEXT_SENTENCEPIECE_NORMAL_H
#define TEXT_SENTENCEPIECE_NORMAL_H
/* Text as a sentencepiece model wants it: characters replaced by the longest matching rule of its table,
 * spaces dropped at both ends and doubled ones too, written as U+2581, with one in front. User-defined pieces
 * pass unchanged. */
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_trie.h"

#define SPACE_MARK "\xE2\x96\x81"              /* U+2581 */
enum { SPACE_MARK_BYTES = 3 };

typedef struct {
    const uint8_t *unit;                       /* the double array: little-endian words of 32 bits */
    uint32_t       units;
    Span           texts;                      /* replacements, each up to its zero */
    const Trie    *user;                       /* NULL: no user-defined pieces */
    bool           dummy_prefix, space_last, drop_spaces, escape_spaces;
} Normaliser;

Status  normaliser_open(Normaliser *n, const Model *m, const Trie *user, const char *path);
/* Writes the normalised text, or only counts its bytes where out is NULL */
int64_t normalise(const Normaliser *n, char *out, const char *text, int64_t bytes);

/* Bytes of the character by its first byte alone */
static inline int64_t character_bytes(char first)
{
    return "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4"[(unsigned char)first >> 4];
}
/* Bytes of the longest user-defined piece that text begins with; 0: none */
int64_t user_piece(const Trie *user, const char *text, int64_t bytes);
#endif
