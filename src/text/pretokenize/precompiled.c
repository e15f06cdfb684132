/* The step Precompiled of a tokenizer.json: the character rules of a sentencepiece model, as Hugging Face's
 * library applies them, which is not as sentencepiece does. A text is cut into grapheme clusters. Of one that
 * is shorter than 6 bytes the shortest rule that it begins with replaces the whole cluster; where there is
 * none, and in longer ones, each character is replaced by itself. */
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "text/pretokenize/normalizer.h"
#include "text/sentencepiece/darts.h"
#include "text/unicode.h"

enum { CLUSTER_BYTES = 6, RULE_GROWTH = 64 };

/* As the file has them: the size of the trie, the trie, and texts that end with a zero each */
typedef struct { const uint8_t *unit, *texts; uint32_t units; int64_t bytes; } Rules;

static Rules rules_of(const uint8_t *data, int64_t bytes)
{
    uint32_t size = bytes < 4 ? 0 : darts_unit(data, 0);
    return (Rules){ data + 4, data + 4 + size, size / 4, bytes - 4 - (int64_t)size };
}

Status precompiled_check(const uint8_t *data, int64_t bytes)
{
    Rules r = rules_of(data, bytes);
    if (bytes < 4 || (darts_unit(data, 0) & 3) || r.units == 0 || r.bytes < 1 || r.texts[r.bytes - 1])
        return fail(BAD_FILE, "precompiled_charsmap has %lld bytes and is damaged", (long long)bytes);
    for (int64_t at = 0; at < r.bytes; ) {
        Rune rune = rune_at(r.texts + at, r.bytes - at);
        if (rune.point == RUNE_BROKEN)
            return fail(BAD_FILE, "precompiled_charsmap is damaged: byte %lld of its texts is not UTF-8",
                        (long long)at);
        at += rune.bytes;
    }
    return OK;
}

/* The text of the shortest rule that `key` begins with; NULL: there is none */
static const uint8_t *rule_find(const Rules *r, const uint8_t *key, int64_t bytes)
{
    uint32_t at = darts_offset(darts_unit(r->unit, 0));
    for (int64_t i = 0; i < bytes && key[i]; i++) {
        at ^= key[i];
        if (at >= r->units) break;
        uint32_t unit = darts_unit(r->unit, at);
        if (darts_label(unit) != key[i]) break;
        at ^= darts_offset(unit);
        if (at >= r->units) break;
        uint32_t value = darts_value(darts_unit(r->unit, at));
        if (darts_is_key(unit)) return value < r->bytes ? r->texts + value : NULL;
    }
    return NULL;
}

/* The bytes of the grapheme cluster that the text begins with */
static int64_t cluster_bytes(const uint8_t *text, int64_t bytes)
{
    utf8proc_int32_t state = 0;
    Rune r = rune_at(text, bytes);
    int64_t at = r.bytes;
    while (r.point != RUNE_BROKEN && at < bytes) {
        Rune next = rune_at(text + at, bytes - at);
        if (next.point == RUNE_BROKEN ||
            utf8proc_grapheme_break_stateful((utf8proc_int32_t)r.point, (utf8proc_int32_t)next.point, &state))
            break;
        at += next.bytes;
        r = next;
    }
    return at;
}

/* The library notes for each character that is written which one of the text it replaces. That decides
 * here whether it still belongs to the first (Chars.first): taken: the place in the text up to which
 * characters are spoken for. */
typedef struct {
    Chars   in;
    NormalizerBuffer *out;
    int64_t wrote, taken, first;
    bool    beginning;                  /* all that is written so far belongs to the first character */
} Rewrite;

static void character_put(Rewrite *w, const uint8_t *text, int bytes, bool stands)
{
    bool first = w->taken < w->in.first || (!stands && w->taken <= w->in.first);
    w->beginning = w->beginning && first;
    if (stands && w->taken < w->in.bytes)
        w->taken += rune_at(w->in.text + w->taken, w->in.bytes - w->taken).bytes;
    memcpy(w->out->data + w->wrote, text, (size_t)bytes);
    w->wrote += bytes;
    if (w->beginning) w->first = w->wrote;
}

static int64_t characters_of(const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    for (int64_t at = 0; at < bytes; count++) at += rune_at(text + at, bytes - at).bytes;
    return count;
}

static Status rule_put(Rewrite *w, const uint8_t *old, int64_t old_bytes, const uint8_t *new)
{
    int64_t bytes = (int64_t)strnlen((const char *)new, (size_t)(RULE_GROWTH * old_bytes + 1));
    int64_t was = characters_of(old, old_bytes), is = characters_of(new, bytes);
    if (bytes > RULE_GROWTH * old_bytes)
        return fail(BAD_FILE, "a rule of the tokenizer's normalizer writes more than %d bytes for each that"
                    " it replaces", RULE_GROWTH);
    TRY(ARRAY_RESERVE(w->out->data, w->out->capacity, w->wrote + bytes));
    for (int64_t at = 0, i = 0; at < bytes; i++) {
        Rune r = rune_at(new + at, bytes - at);
        character_put(w, new + at, r.bytes, i < was);
        at += r.bytes;
    }
    for (; is < was && w->wrote && w->taken < w->in.bytes; is++)
        w->taken += rune_at(w->in.text + w->taken, w->in.bytes - w->taken).bytes;
    return OK;
}

static Status cluster_put(Rewrite *w, const Rules *rules, const uint8_t *text, int64_t bytes)
{
    const uint8_t *rule = bytes < CLUSTER_BYTES ? rule_find(rules, text, bytes) : NULL;
    if (rule) return rule_put(w, text, bytes, rule);
    for (int64_t at = 0; at < bytes; ) {
        int one = rune_at(text + at, bytes - at).bytes;
        rule = rule_find(rules, text + at, one);
        if (rule) {
            TRY(rule_put(w, text + at, one, rule));
        } else {
            TRY(ARRAY_RESERVE(w->out->data, w->out->capacity, w->wrote + one));
            character_put(w, text + at, one, true);
        }
        at += one;
    }
    return OK;
}

Status precompiled_apply(const NormalizerStep *step, NormalizerBuffer *out, Chars *text)
{
    Rules   rules = rules_of(step->old, step->old_bytes);
    Rewrite w = { .in = *text, .out = out, .beginning = true };
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes + 1));
    for (int64_t at = 0, bytes; at < text->bytes; at += bytes) {
        bytes = cluster_bytes(text->text + at, text->bytes - at);
        TRY(cluster_put(&w, &rules, text->text + at, bytes));
    }
    *text = (Chars){ out->data, w.wrote, w.first };
    return OK;
}
