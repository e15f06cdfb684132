#include "text/added.h"
#include <stdlib.h>
#include <string.h>
#include "text/unicode.h"

Status added_add(Added *a, AddedToken token)
{
    AddedToken *grown = realloc(a->token, (size_t)(a->count + 1) * sizeof *grown);
    if (grown) a->token = grown;
    uint8_t *text = malloc((size_t)token.bytes + 1);
    if (!grown || !text) {
        free(text);
        return fail(NO_MEMORY, "no memory for added tokens");
    }
    memcpy(text, token.text, (size_t)token.bytes);
    token.text = text;
    a->token[a->count++] = token;
    return OK;
}

static int compare(const void *left, const void *right)
{
    const AddedToken *a = left, *b = right;
    if (*a->text != *b->text) return *a->text < *b->text ? -1 : 1;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

void added_sort(Added *a)
{
    if (a->count) qsort(a->token, (size_t)a->count, sizeof *a->token, compare);
    for (int byte = 0, at = 0; byte <= 256; byte++) {
        while (at < a->count && *a->token[at].text < byte) at++;
        a->first[byte] = at;
    }
}

void added_close(Added *a)
{
    for (int i = 0; i < a->count; i++) free(a->token[i].text);
    free(a->token);
    *a = (Added){ 0 };
}

static bool is_word(Rune r) { return (r.kind & (LETTER | NUMBER | UPPER | LOWER)) || r.point == '_'; }

static Rune rune_before(const uint8_t *text, int64_t at)
{
    int64_t from = at - 1;
    while (from > 0 && at - from < 4 && (text[from] & 0xC0) == 0x80) from--;
    return rune_at(text + from, at - from);
}

static bool stands_alone(const uint8_t *text, int64_t bytes, int64_t from, int64_t to)
{
    if (from && is_word(rune_before(text, from))) return false;
    return to == bytes || !is_word(rune_at(text + to, bytes - to));
}

static const AddedToken *token_at(const Added *a, bool normalized, const uint8_t *text, int64_t bytes, int64_t at)
{
    for (int i = a->first[text[at]]; i < a->first[text[at] + 1]; i++) {
        const AddedToken *t = &a->token[i];
        if (t->normalized != normalized || t->bytes > bytes - at || memcmp(text + at, t->text, (size_t)t->bytes)) continue;
        if (!t->single || stands_alone(text, bytes, at, at + t->bytes)) return t;
    }
    return NULL;
}

const AddedToken *added_next(const Added *a, bool normalized, const uint8_t *text, int64_t bytes, int64_t at,
                             int64_t *from, int64_t *to)
{
    const AddedToken *t = NULL;
    int64_t begin = at;
    *from = *to = bytes;
    if (!a->count) return NULL;
    while (at < bytes && !(t = token_at(a, normalized, text, bytes, at))) at++;
    if (!t) return NULL;
    *from = at;
    *to   = at + t->bytes;
    while (t->strip_left && *from > begin) {
        Rune r = rune_before(text, *from);
        if (!(r.kind & SPACE)) break;
        *from -= r.bytes;
    }
    while (t->strip_right && *to < bytes) {
        Rune r = rune_at(text + *to, bytes - *to);
        if (!(r.kind & SPACE)) break;
        *to += r.bytes;
    }
    return t;
}
