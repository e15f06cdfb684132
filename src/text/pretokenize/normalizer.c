/* The steps of a normalizer. The Unicode forms use utf8proc's tables, but not its string functions: those
 * copy the whole text and sort combining marks in quadratic time. Here text that a form cannot change is
 * copied, runs of other characters are decomposed, ordered and composed, and marks are sorted by counting. */
#include "text/pretokenize/normalizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "text/unicode.h"

/* ---- the four Unicode normalization forms: decompose, order combining marks, compose ---- */

/* The code points of a run; capacity 0: they are only counted. flags: utf8proc's options of the form */
typedef struct { utf8proc_int32_t *point; int64_t count, capacity; int flags; } Points;

static int combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

/* Sorts a run of combining marks by their class, stably, as the canonical ordering algorithm demands. A
 * counting sort, so that a text of nothing but marks takes linear time. */
static void marks_sort(utf8proc_int32_t *point, int64_t count, utf8proc_int32_t *space)
{
    int64_t at[257] = { 0 };
    for (int64_t i = 0; i < count; i++) at[combining_class(point[i]) + 1]++;
    for (int r = 0; r < 256; r++) at[r + 1] += at[r];
    for (int64_t i = 0; i < count; i++) space[at[combining_class(point[i])]++] = point[i];
    memcpy(point, space, (size_t)count * sizeof *point);
}

static void marks_order(Points *p)
{
    for (int64_t from = 0, to; from < p->count; from = to) {
        bool moves = false;
        for (to = from; to < p->count && combining_class(p->point[to]); to++)
            moves |= to > from && combining_class(p->point[to]) < combining_class(p->point[to - 1]);
        if (moves) marks_sort(p->point + from, to - from, p->point + p->count);
        to += to == from;
    }
}

/* Decomposes text, which is valid UTF-8, into p->point, and counts the code points; only counts where
 * capacity is 0. */
static void decompose(Points *p, Chars text)
{
    int flags = (p->flags & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE, last = 0;
    p->count = 0;
    for (int64_t at = 0; at < text.bytes; ) {
        Rune r = rune_at(text.text + at, text.bytes - at);
        p->count += utf8proc_decompose_char((utf8proc_int32_t)r.point,
                                            p->capacity ? p->point + p->count : NULL,
                                            p->capacity - (p->capacity ? p->count : 0), flags, &last);
        at += r.bytes;
    }
}

/* Reserves twice the number of code points: marks_sort uses the second half. */
static Status points_reserve(Points *p, Chars text)
{
    Points counted = { .flags = p->flags };
    decompose(&counted, text);
    if (2 * counted.count <= p->capacity) return OK;
    free(p->point);
    p->capacity  = 2 * counted.count;
    p->point = malloc((size_t)p->capacity * sizeof *p->point);
    return p->point ? OK : fail(NO_MEMORY, "no memory to normalize %" PRId64 " characters", counted.count);
}

/* Writes the normalized run to out and returns its length in bytes. */
static int64_t form_run(Points *p, uint8_t *out, Chars text)
{
    int64_t wrote = 0;
    decompose(p, text);
    marks_order(p);
    if (p->flags & UTF8PROC_COMPOSE) p->count = utf8proc_normalize_utf32(p->point, p->count, p->flags);
    for (int64_t i = 0; i < p->count; i++) wrote += utf8_encode(out + wrote, (uint32_t)p->point[i]);
    return wrote;
}

/* The length in bytes of the run from `at` on of characters that the form cannot change, with broken bytes
 * (`plain`), or of all others. */
static inline int64_t run_bytes(Chars text, int64_t at, uint32_t below, bool plain)
{
    int64_t from = at;
    while (at < text.bytes) {
        Rune r = rune_at(text.text + at, text.bytes - at);
        if ((r.point < below || r.point == RUNE_BROKEN) != plain) break;
        at += r.bytes;
    }
    return at - from;
}

/* The length of the last character of text[from .. at), 1 or 2 bytes; 0: there is none. A mark after it may
 * compose with it, so it belongs to the run of the mark. */
static int64_t last_character_bytes(Chars text, int64_t from, int64_t at)
{
    for (int64_t back = 1; back <= 2 && at - back >= from; back++) {
        Rune r = rune_at(text.text + at - back, back);
        if (r.bytes == back && r.point != RUNE_BROKEN) return back;
    }
    return 0;
}

/* Normalizes the runs of characters >= `below`, each with the character before it, and copies the rest, since
 * the form changes no character under `below`. ratio: the most bytes that one byte can become. */
static Status form_runs(Points *p, NormalizerBuffer *out, Chars *text, uint32_t below, int64_t ratio)
{
    int64_t at = 0, wrote = 0;
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes * ratio + 4));
    while (at < text->bytes) {
        int64_t plain  = run_bytes(*text, at, below, true);
        int64_t formed = run_bytes(*text, at + plain, below, false);
        int64_t joined = formed ? last_character_bytes(*text, at, at + plain) : 0;
        memcpy(out->data + wrote, text->text + at, (size_t)(plain - joined));
        wrote += plain - joined;
        Chars run = { text->text + at + plain - joined, formed + joined };
        TRY(points_reserve(p, run));
        wrote += form_run(p, out->data + wrote, run);
        at += plain + formed;
    }
    *text = (Chars){ out->data, wrote };
    return OK;
}

/* ratio: the maximum expansion factors of UTF-8 (Unicode's normalization FAQ) */
static const struct { int flags, ratio; uint32_t below; } forms[] = {
    [NORMALIZER_NFC]  = { UTF8PROC_STABLE | UTF8PROC_COMPOSE,                      3, LATIN_END },
    [NORMALIZER_NFD]  = { UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,                    3, 0x80 },
    [NORMALIZER_NFKC] = { UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,   11, 0x80 },
    [NORMALIZER_NFKD] = { UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 11, 0x80 },
};

/* Whether the form leaves the whole text as it is: no byte is a lead byte of a character >= below. */
static bool all_below(Chars text, uint32_t below)
{
    uint8_t lead = below == 0x80 ? 0x80 : 0xCC;              /* the lead byte of U+0300 is CC */
    for (int64_t i = 0; i < text.bytes; i++)
        if (text.text[i] >= lead) return false;
    return true;
}

static Status unicode_form(NormalizerKind kind, NormalizerBuffer *out, Chars *text)
{
    if (all_below(*text, forms[kind].below)) return OK;
    Points p = { .flags = forms[kind].flags };
    Status status = form_runs(&p, out, text, forms[kind].below, forms[kind].ratio);
    free(p.point);
    return status;
}

/* ---- prepend and replace ---- */

static bool begins(Chars text, const uint8_t *with, int bytes)
{
    return text.bytes >= bytes && !memcmp(text.text, with, (size_t)bytes);
}

static Status prepend(const NormalizerStep *s, NormalizerBuffer *out, Chars *text)
{
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes + s->new_bytes));
    memcpy(out->data, s->new, (size_t)s->new_bytes);
    memcpy(out->data + s->new_bytes, text->text, (size_t)text->bytes);
    *text = (Chars){ out->data, text->bytes + s->new_bytes };
    return OK;
}

/* The most bytes that a byte of text can become by this step */
static int64_t growth(const NormalizerStep *s)
{
    if (s->kind <= NORMALIZER_NFKD)    return forms[s->kind].ratio;
    if (s->kind != NORMALIZER_REPLACE) return 1;
    return s->new_bytes <= s->old_bytes ? 1 : (s->new_bytes + s->old_bytes - 1) / s->old_bytes;
}

static Status replace(const NormalizerStep *s, NormalizerBuffer *out, Chars *text)
{
    int64_t wrote = 0;
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes * growth(s)));
    for (int64_t at = 0; at < text->bytes; ) {
        if (begins((Chars){ text->text + at, text->bytes - at }, s->old, s->old_bytes)) {
            memcpy(out->data + wrote, s->new, (size_t)s->new_bytes);
            wrote += s->new_bytes;
            at    += s->old_bytes;
        } else {
            out->data[wrote++] = text->text[at++];
        }
    }
    *text = (Chars){ out->data, wrote };
    return OK;
}

static Status step_apply(const NormalizerStep *s, NormalizerBuffer *out, Chars *text, bool first)
{
    if (text->bytes == 0)          return OK;
    if (s->kind <= NORMALIZER_NFKD)    return unicode_form(s->kind, out, text);
    if (s->kind == NORMALIZER_REPLACE) return replace(s, out, text);
    bool begun = begins(*text, s->new, s->new_bytes);
    if (s->kind == NORMALIZER_PREPEND_FIRST && (begun || !first)) return OK;
    if (s->kind == NORMALIZER_PREPEND_UNLESS && begun)            return OK;
    return prepend(s, out, text);
}

Status normalizer_apply(const Normalizer *n, Chars *text, bool first, NormalizerBuffers *buffers)
{
    for (int i = 0; i < n->steps; i++) {
        /* A step never writes the buffer that it reads. */
        TRY(step_apply(&n->step[i], &buffers->text[text->text == buffers->text[0].data], text, first));
    }
    return OK;
}

void normalizer_buffers_close(NormalizerBuffers *buffers)
{
    free(buffers->text[0].data);
    free(buffers->text[1].data);
    *buffers = (NormalizerBuffers){ 0 };
}

void normalizer_growth(const Normalizer *n, int64_t *ratio, int64_t *extra)
{
    *ratio = 1;
    *extra  = 0;
    for (int i = 0; i < n->steps; i++) {
        const NormalizerStep *s = &n->step[i];
        bool grows = s->kind >= NORMALIZER_PREPEND && s->kind <= NORMALIZER_PREPEND_UNLESS;
        *ratio *= growth(s);
        *extra  *= growth(s);
        if (grows) *extra += s->new_bytes;
    }
}
