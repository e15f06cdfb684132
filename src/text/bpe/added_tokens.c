/* Finds added tokens in a text. Tokens are sorted by first byte, so most positions of a text cost one
 * comparison. */
#include "text/bpe/added_tokens.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/pretokenize/characters.h"
#include "text/unicode.h"

Status added_add(AddedTokens *a, AddedToken token)
{
    TRY(ARRAY_RESERVE(a->token, a->room, a->count + 1));
    uint8_t *text = malloc((size_t)token.bytes + 1);
    if (!text) return fail(NO_MEMORY, "no memory for added tokens");
    memcpy(text, token.text, (size_t)token.bytes);
    token.text = text;
    a->token[a->count++] = token;
    a->specials += token.special;
    return OK;
}

Status added_rewrite(AddedToken *token, const uint8_t *text, int64_t bytes)
{
    uint8_t *made = calloc((size_t)bytes + 1, 1);
    if (!made) return fail(NO_MEMORY, "no memory for added tokens");
    memcpy(made, text, (size_t)bytes);
    free(token->text);
    token->text  = made;
    token->bytes = bytes;
    return OK;
}

/* By first byte, the longest first: so the first match at a position is the longest. */
static int compare(const void *left, const void *right)
{
    const AddedToken *a = left, *b = right;
    int first = a->bytes ? *a->text : 0, other = b->bytes ? *b->text : 0;
    if (first != other) return first < other ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return memcmp(a->text, b->text, (size_t)a->bytes);
}

void added_sort(AddedTokens *a)
{
    if (a->count) qsort(a->token, (size_t)a->count, sizeof *a->token, compare);
    for (int byte = 0, at = 0; byte <= 256; byte++) {
        while (at < a->count && *a->token[at].text < byte) at++;
        a->first[byte] = at;
    }
}

void added_limit(AddedTokens *a, int32_t ids)
{
    int kept = 0;
    for (int i = 0; i < a->count; i++) {
        if (a->token[i].id < ids) {
            a->token[kept++] = a->token[i];
            continue;
        }
        a->specials -= a->token[i].special;
        free(a->token[i].text);
    }
    a->count = kept;
    added_sort(a);
}

void added_close(AddedTokens *a)
{
    for (int i = 0; i < a->count; i++) free(a->token[i].text);
    free(a->token);
    *a = (AddedTokens){ 0 };
}

/* The character that ends at `at` > 0 */
static Rune rune_before(const uint8_t *text, int64_t at)
{
    int64_t from = at - 1;
    while (from > 0 && at - from < 4 && (text[from] & 0xC0) == 0x80) from--;
    return rune_at(text + from, at - from);
}

static bool stands_alone(const uint8_t *text, int64_t bytes, int64_t from, int64_t to)
{
    if (from && character_is_word(rune_before(text, from).point)) return false;
    return to == bytes || !character_is_word(rune_at(text + to, bytes - to).point);
}

/* The longest token at a position, or NULL */
static const AddedToken *token_at(const AddedTokens *a, bool normalized, const uint8_t *text, int64_t bytes,
                                  int64_t at)
{
    for (int i = a->first[text[at]]; i < a->first[text[at] + 1]; i++) {
        const AddedToken *t = &a->token[i];
        if (t->normalized == normalized && t->bytes && t->bytes <= bytes - at &&
            !memcmp(text + at, t->text, (size_t)t->bytes))
            return t;
    }
    return NULL;
}

/* Extends the match over the white space next to it, but not into the previous token (`least`), nor twice
 * over the same white space (m->white): then a text of nothing but tokens and white space takes linear
 * time. */
static void strip(const AddedToken *t, const uint8_t *text, int64_t bytes, int64_t least, AddedMatch *m)
{
    if (t->strip_left && m->from < least) m->from = least;          /* an earlier token has its beginning */
    while (t->strip_left && m->from > least) {
        Rune r = rune_before(text, m->from);
        if (!(r.kind & SPACE)) break;
        m->from -= r.bytes;
    }
    if (!t->strip_right) return;
    while (m->to < bytes && m->to >= m->white) {
        Rune r = rune_at(text + m->to, bytes - m->to);
        if (!(r.kind & SPACE)) break;
        m->to += r.bytes;
        m->white = m->to;
    }
    if (m->to < m->white) m->to = m->white;                         /* an earlier token scanned this white
                                                                     * space */
}

const AddedToken *added_next(const AddedTokens *a, AddedTokensKind kind, const uint8_t *text, int64_t bytes,
                             AddedMatch *m)
{
    int64_t at = m->searched, before = m->to;
    while (at < bytes) {
        const AddedToken *t = token_at(a, kind.normalized, text, bytes, at);
        int64_t end = at + (t ? t->bytes : 1);
        if (t && (kind.specials || !t->special) && (!t->single || stands_alone(text, bytes, at, end))) {
            *m = (AddedMatch){ at, end, end, m->white };
            strip(t, text, bytes, before, m);
            return t;
        }
        at = end;
    }
    m->searched = bytes;
    return NULL;
}
