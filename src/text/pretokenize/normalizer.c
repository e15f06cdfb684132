/* The steps of a normalizer. The Unicode forms use utf8proc's tables, but not its string functions: those
 * copy the whole text and sort combining marks in quadratic time. Here text that a form cannot change is
 * copied, runs of other characters are decomposed, ordered and composed, and marks are sorted by counting. */
#include "text/pretokenize/normalizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "text/bpe/vocab.h"
#include "text/pretokenize/characters.h"
#include "text/unicode.h"

/* ---- the four Unicode normalization forms: decompose, order combining marks, compose ---- */

/* The code points of a run; capacity 0: they are only counted. flags: utf8proc's options of the form;
 * library: as in NormalizerStep */
typedef struct { utf8proc_int32_t *point; int64_t count, capacity; int flags; bool library; } Points;

static bool is_starter(const Points *p, utf8proc_int32_t point)
{
    return p->library && character_is_starter((uint32_t)point);
}

static int combining_class(const Points *p, utf8proc_int32_t point)
{
    return is_starter(p, point) ? 0 : utf8proc_get_property(point)->combining_class;
}

/* Sorts a run of combining marks by their class, stably, as the canonical ordering algorithm demands. A
 * counting sort, so that a text of nothing but marks takes linear time. */
static void marks_sort(const Points *p, utf8proc_int32_t *point, int64_t count)
{
    int64_t at[257] = { 0 };
    utf8proc_int32_t *space = p->point + p->count;
    for (int64_t i = 0; i < count; i++) at[combining_class(p, point[i]) + 1]++;
    for (int r = 0; r < 256; r++) at[r + 1] += at[r];
    for (int64_t i = 0; i < count; i++) space[at[combining_class(p, point[i])]++] = point[i];
    memcpy(point, space, (size_t)count * sizeof *point);
}

static void marks_order(Points *p)
{
    for (int64_t from = 0, to; from < p->count; from = to) {
        bool moves = false;
        for (to = from; to < p->count && combining_class(p, p->point[to]); to++)
            moves |= to > from && combining_class(p, p->point[to]) < combining_class(p, p->point[to - 1]);
        if (moves) marks_sort(p, p->point + from, to - from);
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
        at += r.bytes;
        if (p->library && character_is_whole(r.point)) {
            if (p->capacity) p->point[p->count] = (utf8proc_int32_t)r.point;
            p->count++;
            continue;
        }
        p->count += utf8proc_decompose_char((utf8proc_int32_t)r.point,
                                            p->capacity ? p->point + p->count : NULL,
                                            p->capacity - (p->capacity ? p->count : 0), flags, &last);
    }
}

/* Reserves twice the number of code points: marks_sort uses the second half. */
static Status points_reserve(Points *p, Chars text)
{
    Points counted = { .flags = p->flags, .library = p->library };
    decompose(&counted, text);
    if (2 * counted.count <= p->capacity) return OK;
    free(p->point);
    p->capacity  = 2 * counted.count;
    p->point = malloc((size_t)p->capacity * sizeof *p->point);
    return p->point ? OK : fail(NO_MEMORY, "no memory to normalize %" PRId64 " characters", counted.count);
}

/* Composes what lies between starters that compose with nothing. */
static void compose(Points *p)
{
    int64_t kept = 0;
    for (int64_t from = 0, to; from < p->count; from = to) {
        for (to = from + 1; to < p->count; to++)
            if (is_starter(p, p->point[to]) || is_starter(p, p->point[to - 1])) break;
        int64_t count = utf8proc_normalize_utf32(p->point + from, to - from, p->flags);
        memmove(p->point + kept, p->point + from, (size_t)count * sizeof *p->point);
        kept += count;
    }
    p->count = kept;
}

/* Writes the normalized run to out and returns its length in bytes. */
static int64_t form_run(Points *p, uint8_t *out, Chars text)
{
    int64_t wrote = 0;
    decompose(p, text);
    marks_order(p);
    if (p->flags & UTF8PROC_COMPOSE) compose(p);
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
        Chars run = { text->text + at + plain - joined, formed + joined, 0 };
        TRY(points_reserve(p, run));
        wrote += form_run(p, out->data + wrote, run);
        at += plain + formed;
    }
    *text = (Chars){ out->data, wrote, 0 };
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

/* How many bytes of the form stand for the first character: those of as many characters as the part before
 * `first` makes by itself. */
static int64_t form_first(Points *p, NormalizerBuffer *out, Chars before, Chars after)
{
    int64_t bytes = 0;
    if (points_reserve(p, before) != OK) return 0;
    form_run(p, out->data, before);
    for (int64_t i = 0; i < p->count && bytes < after.bytes; i++)
        bytes += rune_at(after.text + bytes, after.bytes - bytes).bytes;
    return bytes;
}

static Status unicode_form(const NormalizerStep *step, NormalizerBuffer *out, Chars *text)
{
    NormalizerKind kind = step->kind;
    if (all_below(*text, forms[kind].below)) return OK;
    Points p = { .flags = forms[kind].flags, .library = step->library };
    Chars  before = { text->text, text->first, 0 };
    Status status = form_runs(&p, out, text, forms[kind].below, forms[kind].ratio);
    if (status == OK && before.bytes) {
        NormalizerBuffer spare = { 0 };
        status = ARRAY_RESERVE(spare.data, spare.capacity, before.bytes * forms[kind].ratio + 4);
        if (status == OK) text->first = form_first(&p, &spare, before, *text);
        free(spare.data);
    }
    free(p.point);
    return status;
}

/* ---- prepend, replace and strip ---- */

static bool begins(Chars text, const uint8_t *with, int bytes)
{
    return text.bytes >= bytes && !memcmp(text.text, with, (size_t)bytes);
}

static Status prepend(const NormalizerStep *s, NormalizerBuffer *out, Chars *text)
{
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes + s->new_bytes));
    memcpy(out->data, s->new, (size_t)s->new_bytes);
    memcpy(out->data + s->new_bytes, text->text, (size_t)text->bytes);
    *text = (Chars){ out->data, text->bytes + s->new_bytes, text->first ? text->first + s->new_bytes : 0 };
    return OK;
}

/* The most bytes that a byte of text can become by this step */
static int64_t growth(const NormalizerStep *s)
{
    switch (s->kind) {
    case NORMALIZER_NFC: case NORMALIZER_NFD: case NORMALIZER_NFKC: case NORMALIZER_NFKD:
        return forms[s->kind].ratio;
    case NORMALIZER_REPLACE:
        return s->new_bytes <= s->old_bytes ? 1 : (s->new_bytes + s->old_bytes - 1) / s->old_bytes;
    case NORMALIZER_REPLACE_MATCHES:    return 1 + 2 * (int64_t)s->new_bytes;      /* around each character */
    case NORMALIZER_LOWERCASE: case NORMALIZER_SPACE_CHINESE: case NORMALIZER_LETTERS: return 2;
    case NORMALIZER_PRECOMPILED:        return 64;
    default:                            return 1;
    }
}

static Status replace(const NormalizerStep *s, NormalizerBuffer *out, Chars *text)
{
    int64_t wrote = 0, first = 0;
    TRY(ARRAY_RESERVE(out->data, out->capacity, text->bytes * growth(s)));
    for (int64_t at = 0; at < text->bytes; ) {
        if (begins((Chars){ text->text + at, text->bytes - at, 0 }, s->old, s->old_bytes)) {
            memcpy(out->data + wrote, s->new, (size_t)s->new_bytes);
            wrote += s->new_bytes;
            at    += s->old_bytes;
        } else {
            out->data[wrote++] = text->text[at++];
        }
        if (at <= text->first) first = wrote;
    }
    *text = (Chars){ out->data, wrote, first };
    return OK;
}

static Status append(NormalizerBuffer *out, int64_t *wrote, const uint8_t *text, int64_t bytes)
{
    TRY(ARRAY_RESERVE(out->data, out->capacity, *wrote + bytes));
    if (bytes) memcpy(out->data + *wrote, text, (size_t)bytes);
    *wrote += bytes;
    return OK;
}

/* What replaces a match belongs to the last character of the match, as in the library's alignments. */
static Status replace_matches(const NormalizerStep *s, NormalizerBuffer *out, RegexSpace **regex, Chars *text)
{
    PatternSearch search = { 0 };
    int64_t at = 0, wrote = 0, first = 0, from, to;
    bool    found = true;
    while (found) {
        TRY(pattern_next(&s->pattern, regex, &search, text->text, text->bytes, &from, &to, &found));
        if (text->first > at) first = wrote + (from < text->first ? from : text->first) - at;
        TRY(append(out, &wrote, text->text + at, from - at));
        if (!found) break;
        TRY(append(out, &wrote, s->new, s->new_bytes));
        if (wrote > 64 * text->bytes + 4096) break;                     /* normalizer_apply refuses it */
        if (text->first && to <= text->first) first = wrote;
        at = to;
    }
    *text = (Chars){ out->data ? out->data : text->text, wrote, first };
    return OK;
}

/* The character that ends the text */
static Rune last_rune(Chars text)
{
    int64_t back = 1;
    while (back < 4 && back < text.bytes && (text.text[text.bytes - back] & 0xC0) == 0x80) back++;
    Rune r = rune_at(text.text + text.bytes - back, back);
    return r.bytes == back ? r : (Rune){ RUNE_BROKEN, 1, 0 };
}

static void strip(const NormalizerStep *s, Chars *text)
{
    Rune r;
    while (s->left && text->bytes && (r = rune_at(text->text, text->bytes)).kind & SPACE) {
        text->text  += r.bytes;
        text->bytes -= r.bytes;
        text->first = text->first > r.bytes ? text->first - r.bytes : 0;
    }
    while (s->right && text->bytes && (r = last_rune(*text)).kind & SPACE) text->bytes -= r.bytes;
    if (text->first > text->bytes) text->first = text->bytes;
}

/* ---- steps that change each character by itself ---- */

static int lower_write(uint8_t *out, Rune r)
{
    int bytes = utf8_encode(out, character_lower(r.point));
    if (r.point == 0x130) bytes += utf8_encode(out + bytes, 0x307);
    return bytes;
}

static int kept_write(uint8_t *out, Rune r, bool kept) { return kept ? utf8_encode(out, r.point) : 0; }

static int clean_write(uint8_t *out, Rune r)
{
    if (character_is_control(r.point)) return 0;
    return utf8_encode(out, r.kind & SPACE ? ' ' : r.point);
}

static int chinese_write(uint8_t *out, Rune r)
{
    if (!character_is_chinese(r.point)) return utf8_encode(out, r.point);
    int bytes = 1 + utf8_encode(out + 1, r.point);
    out[0] = out[bytes] = ' ';
    return bytes + 1;
}

static int nmt_write(uint8_t *out, Rune r)
{
    static const uint32_t blanks[] = { 0x09, 0x0A, 0x0C, 0x0D, 0x1680, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F,
                                       0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD };
    for (int i = 0; i < COUNT(blanks); i++)
        if (r.point == blanks[i]) return utf8_encode(out, ' ');
    bool dropped = (r.point && r.point < 0x20) || r.point == 0x7F || r.point == 0x8F || r.point == 0x9F;
    return kept_write(out, r, !dropped);
}

static int character_write(NormalizerKind kind, uint8_t *out, Rune r)
{
    switch (kind) {
    case NORMALIZER_LOWERCASE:        return lower_write(out, r);
    case NORMALIZER_STRIP_MARKS:      return kept_write(out, r, !character_is_mark(r.point));
    case NORMALIZER_STRIP_NONSPACING: return kept_write(out, r, !character_is_nonspacing(r.point));
    case NORMALIZER_CLEAN:            return clean_write(out, r);
    case NORMALIZER_SPACE_CHINESE:    return chinese_write(out, r);
    default:                          return nmt_write(out, r);
    }
}

static Status characters(NormalizerKind kind, NormalizerBuffer *out, Chars *text)
{
    int64_t wrote = 0, first = 0;
    TRY(ARRAY_RESERVE(out->data, out->capacity, 2 * text->bytes + 8));
    for (int64_t at = 0; at < text->bytes; ) {
        Rune r = rune_at(text->text + at, text->bytes - at);
        if (r.point == RUNE_BROKEN) out->data[wrote++] = text->text[at];
        else                        wrote += character_write(kind, out->data + wrote, r);
        at += r.bytes;
        if (at <= text->first) first = wrote;
    }
    *text = (Chars){ out->data, wrote, first };
    return OK;
}

static Status letters(NormalizerBuffer *out, Chars *text)
{
    TRY(ARRAY_RESERVE(out->data, out->capacity, 2 * text->bytes));
    int64_t first = (int64_t)letters_of_bytes((char *)out->data, text->text, text->first);
    int64_t bytes = (int64_t)letters_of_bytes((char *)out->data, text->text, text->bytes);
    *text = (Chars){ out->data, bytes, first };
    return OK;
}

/* ---- all steps ---- */

Status normalizer_step_make(NormalizerStep *s, NormalizerKind kind, const char *old, int64_t old_bytes,
                            const char *new, int64_t new_bytes)
{
    uint8_t *copy = malloc((size_t)(old_bytes + new_bytes) + 1);
    if (!copy) return fail(NO_MEMORY, "no memory for a normalizer");
    if (old_bytes) memcpy(copy, old, (size_t)old_bytes);
    if (new_bytes) memcpy(copy + old_bytes, new, (size_t)new_bytes);
    *s = (NormalizerStep){ .kind = kind, .owned = copy, .old = copy, .old_bytes = (int)old_bytes,
                           .new = copy + old_bytes, .new_bytes = (int)new_bytes };
    return OK;
}

void normalizer_step_close(NormalizerStep *s)
{
    free(s->owned);
    pattern_close(&s->pattern);
    *s = (NormalizerStep){ 0 };
}

void normalizer_close(Normalizer *n)
{
    for (int i = 0; i < n->steps; i++) normalizer_step_close(&n->step[i]);
    *n = (Normalizer){ 0 };
}

Status normalizer_step_apply(const NormalizerStep *s, NormalizerBuffer *out, RegexSpace **regex, Chars *text)
{
    if (text->bytes == 0) return OK;
    bool begun = s->new_bytes && begins(*text, s->new, s->new_bytes);
    switch (s->kind) {
    case NORMALIZER_NFC: case NORMALIZER_NFD: case NORMALIZER_NFKC: case NORMALIZER_NFKD:
        return unicode_form(s, out, text);
    case NORMALIZER_PREPEND:         return prepend(s, out, text);
    case NORMALIZER_PREPEND_FIRST:   return begun || !text->first ? OK : prepend(s, out, text);
    case NORMALIZER_PREPEND_UNLESS:  return begun ? OK : prepend(s, out, text);
    case NORMALIZER_REPLACE:         return replace(s, out, text);
    case NORMALIZER_REPLACE_MATCHES: return replace_matches(s, out, regex, text);
    case NORMALIZER_STRIP:           strip(s, text); return OK;
    case NORMALIZER_LETTERS:         return letters(out, text);
    case NORMALIZER_PRECOMPILED:     return precompiled_apply(s, out, text);
    default:                         return characters(s->kind, out, text);
    }
}

static bool is_in(Chars text, const NormalizerBuffer *buffer)
{
    return buffer->data && text.text >= buffer->data && text.text <= buffer->data + buffer->capacity;
}

Status normalizer_apply(const Normalizer *n, Chars *text, NormalizerBuffers *buffers)
{
    int64_t most = 64 * text->bytes + 4096;
    for (int i = 0; i < n->steps; i++) {
        /* a step never writes the buffer that it reads */
        NormalizerBuffer *out = &buffers->text[is_in(*text, &buffers->text[0])];
        TRY(normalizer_step_apply(&n->step[i], out, &buffers->regex, text));
        if (text->bytes > most)
            return fail(BAD_FILE, "the tokenizer's normalizers make a text more than 64 times longer");
    }
    return OK;
}

void normalizer_buffers_close(NormalizerBuffers *buffers)
{
    free(buffers->text[0].data);
    free(buffers->text[1].data);
    regex_space_close(buffers->regex);
    *buffers = (NormalizerBuffers){ 0 };
}

/* Bounds that are too large to be of use are cut, so that products do not overflow. */
void normalizer_growth(const Normalizer *n, int64_t *ratio, int64_t *extra)
{
    const int64_t most = 1 << 20;
    *ratio = 1;
    *extra  = 0;
    for (int i = 0; i < n->steps; i++) {
        const NormalizerStep *s = &n->step[i];
        bool grows = s->kind >= NORMALIZER_PREPEND && s->kind <= NORMALIZER_PREPEND_UNLESS;
        *ratio *= growth(s);
        *extra *= growth(s);
        if (grows) *extra += s->new_bytes;
        if (*ratio > most) *ratio = most;
        if (*extra > most) *extra = most;
    }
}
