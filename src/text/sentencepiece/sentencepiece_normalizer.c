/* The normalizer of a sentencepiece model (normalizer.cc of the library). The rules are a double-array trie
 * in the layout of Darts-clone, which the model file contains; as nothing in it is trusted, each step of a
 * walk checks its index. */
#include "text/sentencepiece/sentencepiece_normalizer.h"
#include <inttypes.h>
#include <string.h>
#include "text/sentencepiece/darts.h"
#include "text/unicode.h"

enum {
    RULE_BYTES_MAX = 256, /* depth of a walk: bounds the cost of a table with a cycle */
    RULES_MAX      = 32,  /* matches that the library considers; the longest of them wins */
    GROWTH_MAX     = 64   /* bytes that a rule may write for each that it replaces */
};

Status sentencepiece_normalizer_open(SentencePieceNormalizer *n, const SentencePieceModel *m,
                                     const SentencePieceTrie *user, const char *path)
{
    *n = (SentencePieceNormalizer){ .user = user, .dummy_prefix = m->dummy_prefix,
                       .space_last = m->space_last,
                       .drop_spaces = m->drop_spaces, .escape_spaces = m->escape_spaces };
    if (m->charsmap.bytes == 0) return OK;
    const uint8_t *data = (const uint8_t *)m->charsmap.data;
    if (m->charsmap.bytes < 4)
        return fail(BAD_FILE, "%s: a normalizer of %zu bytes is truncated", path, m->charsmap.bytes);
    uint32_t trie = data[0] | data[1] << 8 | data[2] << 16 | (uint32_t)data[3] << 24;
    size_t   rest = m->charsmap.bytes - 4;
    if (trie % 4 || trie < 1024 || trie >= rest || data[4 + rest - 1] != 0)
        return fail(BAD_FILE, "%s: a normalizer of %zu bytes with a table of %" PRIu32 " bytes is damaged",
                    path, m->charsmap.bytes, trie);
    n->unit  = data + 4;
    n->units = trie / 4;
    n->texts = (ByteSpan){ m->charsmap.data + 4 + trie, rest - trie };
    return OK;
}

/* ---- one replacement: of the first character, or of the bytes that a rule matches ---- */

typedef struct { ByteSpan text; int64_t used; } Replacement;        /* used: bytes replaced; -1: the rule
                                                                     * grows too much */

/* Finds the longest rule that the text begins with. */
static bool rule_find(Replacement *s, const SentencePieceNormalizer *n, const char *text, int64_t bytes)
{
    bool     found = false;
    int      rules = 0;
    uint32_t at = darts_offset(darts_unit(n->unit, 0));
    for (int64_t i = 0; i < bytes && i < RULE_BYTES_MAX && rules < RULES_MAX; i++) {
        uint8_t byte = (uint8_t)text[i];
        at ^= byte;
        if (at >= n->units) break;
        uint32_t unit = darts_unit(n->unit, at);
        if (darts_label(unit) != byte) break;
        at ^= darts_offset(unit);
        if (at >= n->units) break;
        if (!darts_is_key(unit)) continue;
        rules++;
        uint32_t value = darts_value(darts_unit(n->unit, at));
        if (value >= n->texts.bytes) break;
        /* texts ends with a zero */
        size_t length = strnlen(n->texts.data + value, GROWTH_MAX * RULE_BYTES_MAX + 1);
        *s    = (Replacement){ { n->texts.data + value, length },
                               length > GROWTH_MAX * (size_t)(i + 1) ? -1 : i + 1 };
        found = true;
    }
    return found;
}

int64_t user_piece_bytes(const SentencePieceTrie *user, const char *text, int64_t bytes)
{
    int64_t longest = 0;
    int32_t node = TRIE_ROOT;
    if (!user) return 0;
    for (int64_t i = 0; i < bytes; i++) {
        node = trie_step(user, node, (unsigned char)text[i]);
        if (node == TRIE_NONE) break;
        if (user->piece[node] >= 0) longest = i + 1;
    }
    return longest;
}

static Replacement replacement_first(const SentencePieceNormalizer *n, const char *text, int64_t bytes)
{
    Replacement s;
    int64_t user = user_piece_bytes(n->user, text, bytes);
    if (user) return (Replacement){ { text, (size_t)user }, user };
    if (n->units && rule_find(&s, n, text, bytes)) return s;
    Rune character = rune_at((const uint8_t *)text, bytes);
    if (character.point != RUNE_BROKEN)
        return (Replacement){ { text, (size_t)character.bytes }, character.bytes };
    return (Replacement){ { "\xEF\xBF\xBD", 3 }, 1 };                       /* U+FFFD */
}

/* ---- the text ---- */

typedef struct {
    char   *out;                        /* NULL: bytes are only counted */
    int64_t bytes, spaces;              /* spaces: not written yet, because they may be at the end of the
                                         * text */
} NormalizedOutput;

static void byte_write(NormalizedOutput *w, char byte)
{
    if (w->out) w->out[w->bytes] = byte;
    w->bytes++;
}

static void spaces_write(const SentencePieceNormalizer *n, NormalizedOutput *w)
{
    for (; w->spaces; w->spaces--) {
        for (int i = 0; n->escape_spaces && i < SPACE_MARK_BYTES; i++) byte_write(w, SPACE_MARK[i]);
        if (!n->escape_spaces) byte_write(w, ' ');
    }
}

/* The text itself may contain the mark, which counts as a space: it too is dropped at the end. */
static bool mark_at(const SentencePieceNormalizer *n, ByteSpan s, size_t i)
{
    return n->escape_spaces && s.bytes - i >= SPACE_MARK_BYTES &&
           !memcmp(s.data + i, SPACE_MARK, SPACE_MARK_BYTES);
}

static void replacement_write(const SentencePieceNormalizer *n, NormalizedOutput *w, ByteSpan s)
{
    for (size_t i = 0; i < s.bytes; i++) {
        if (s.data[i] == ' ') {
            w->spaces++;
        } else if (mark_at(n, s, i)) {
            w->spaces++;
            i += SPACE_MARK_BYTES - 1;
        } else {
            spaces_write(n, w);
            byte_write(w, s.data[i]);
        }
    }
}

int64_t sentencepiece_normalizer_apply(const SentencePieceNormalizer *n, char *out, const char *text,
                                       int64_t bytes)
{
    NormalizedOutput w = { .out = out };
    bool after_space = n->drop_spaces;
    Replacement s;
    for (; n->drop_spaces && bytes; text += s.used, bytes -= s.used) {
        s = replacement_first(n, text, bytes);
        if (s.used < 0 || s.text.bytes != 1 || s.text.data[0] != ' ') break;
    }
    if (bytes == 0) return 0;
    w.spaces = n->dummy_prefix && !n->space_last;
    for (; bytes; text += s.used, bytes -= s.used) {
        s = replacement_first(n, text, bytes);
        if (s.used < 0) return -1;
        while (after_space && s.text.bytes && s.text.data[0] == ' ') s.text.data++, s.text.bytes--;
        if (s.text.bytes) {
            replacement_write(n, &w, s.text);
            after_space = s.text.data[s.text.bytes - 1] == ' ';
        }
        after_space = after_space && n->drop_spaces;
    }
    if (n->drop_spaces) w.spaces = 0;
    w.spaces += n->dummy_prefix && n->space_last;
    spaces_write(n, &w);
    return w.bytes;
}
