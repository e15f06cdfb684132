/* Each character has a class, one byte in a table of 65536 that is made when a charset is opened; the
 * class of the rare characters beyond U+FFFF is computed when one occurs. A text without any class that
 * needs action, which is nearly every text, is read once and not changed. */
#include "corpus/quality/charset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "base/bytes16.h"
#include "base/message.h"
#include "base/utf8.h"
#include "base/words.h"
#include "text/pretokenize/normalizer.h"
#include "text/unicode.h"

/* SIGN and LETTER_ belong to the language and stay. BLANK becomes a space, BREAK a line end; INVISIBLE and
 * EMOJI are removed. The bit MAY_NORMALIZE is added to a class where NFC may change the character or what
 * precedes it. */
typedef enum {
    SIGN, LETTER_, BLANK, BREAK, INVISIBLE, EMOJI, FOREIGN_SIGN, FOREIGN_LETTER,
    MAY_NORMALIZE = 8
} CharClass;
#define MASK(class) (1u << (class))
/* Masks have one bit for each class, so a class in a set is one shift. DEPTH_MOST: parentheses nested
 * deeper are not checked, which bounds the state of a line. */
enum {
    TABLE = 0x10000,
    FOREIGN = 1 << FOREIGN_SIGN | 1 << FOREIGN_LETTER,
    REWRITTEN = 1 << BLANK | 1 << BREAK | 1 << INVISIBLE | 1 << EMOJI,
    MAY_NORMALIZE_ALL = 0xFF00,
    DEPTH_MOST = 16
};

struct Charset {
    CharsetPlan plan;
    uint8_t     class[TABLE];
};

const char *charset_count_name(CharsetCount count)
{
    static const char *const word[CHARSET_COUNTS] = {
        "documents normalized", "invisible characters taken out", "blanks made plain", "emoji taken out",
        "foreign parentheses dropped", "foreign lines dropped", "foreign documents dropped" };
    return word[count];
}

/* ---- the table ---- */

static const struct { const char *name, *own, *loan; } languages[] = {
#define LANGUAGE(name, language, own, loan, stop_words) { name, own, loan },
#include "corpus/quality/languages.def"
#undef LANGUAGE
};
/* Signs that occur in texts of every language. */
static const char *const common[] = {
    "–—‐‑‒―‘’‚‛“”„‟‹›…•·‣†‡‰′″‴⁄№",
    "€₤₺℃℉™℠←↑→↓↔⇒⇔",
    "−×÷±√∞≈≠≤≥∑∏∂∆∫∈∅∩∪⊂∀∃",
    "⅓⅔⅛⅜⅝⅞⁰⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉",
    "■□▪▫▲►▼◄◆◊○●★☆✓♀♂♠♣♥♦♪♭♯",
};
enum { LANGUAGES = COUNT(languages), COMMONS = COUNT(common) };

static bool is_emoji(uint32_t point, const utf8proc_property_t *property)
{
    bool flag = point >= 0x1F1E6 && point <= 0x1F1FF, tone = point >= 0x1F3FB && point <= 0x1F3FF;
    return flag || tone || property->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
}

static bool is_invisible(uint32_t point, const utf8proc_property_t *property)
{
    bool selector = (point >= 0xFE00 && point <= 0xFE0F) || (point >= 0xE0000 && point <= 0xE0FFF) ||
                    point == 0x34F;
    return selector || property->category == UTF8PROC_CATEGORY_CF ||
           property->category == UTF8PROC_CATEGORY_CC;
}

/* Whether NFC can change the character, or the one before it by composition (combining marks, Hangul
 * jamo): the quick check of Unicode Annex 15, computed here because utf8proc has none. False positives
 * cost time only. */
static bool may_normalize(uint32_t point, const utf8proc_property_t *property)
{
    utf8proc_int32_t parts[8];
    int last = 0;
    bool mark = property->category >= UTF8PROC_CATEGORY_MN && property->category <= UTF8PROC_CATEGORY_ME;
    if (property->combining_class || mark || (point >= 0x1100 && point <= 0x11FF)) return true;
    if (property->decomp_type || property->decomp_seqindex == UINT16_MAX) return false;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)point, parts, 8,
                                                     UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &last);
    count = utf8proc_normalize_utf32(parts, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return count != 1 || parts[0] != (utf8proc_int32_t)point;
}

/* The class of a character before the languages add theirs: ASCII and Latin-1 belong to every language. */
static CharClass class_of(CharsetEmoji emoji, uint32_t point)
{
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)point);
    CharClass normalizable = may_normalize(point, property) ? MAY_NORMALIZE : 0;
    int   kind   = unicode_class(point);
    if (point == '\n' || point == '\t' || point == ' ') return SIGN;
    if (kind & SPACE) return property->category == UTF8PROC_CATEGORY_ZS ? BLANK | normalizable : BREAK;
    if (is_invisible(point, property)) return INVISIBLE | normalizable;
    if (point < 0x250 && kind & LETTER) return point < 0x100 ? LETTER_ : FOREIGN_LETTER;
    if (point < 0x100) return SIGN;
    if (is_emoji(point, property))
        return emoji == EMOJI_KEEP ? SIGN : emoji == EMOJI_REMOVE ? EMOJI : FOREIGN_SIGN;
    return (kind & LETTER ? FOREIGN_LETTER : FOREIGN_SIGN) | normalizable;
}

/* Keeps the bit MAY_NORMALIZE, which depends on the character alone. */
static void class_set(Charset *c, uint32_t point, CharClass class)
{
    uint8_t *slot = &c->class[point];
    *slot = (uint8_t)((*slot & MAY_NORMALIZE) | class);
}

/* Letters are listed in lower case; their capitals are added with them. */
static void characters_add(Charset *c, const char *characters, CharClass class)
{
    for (int64_t left = (int64_t)strlen(characters); left; ) {
        Rune r = rune_at((const uint8_t *)characters, left);
        class_set(c, r.point, class);
        if (class == LETTER_) class_set(c, (uint32_t)utf8proc_toupper((utf8proc_int32_t)r.point), class);
        characters += r.bytes;
        left       -= r.bytes;
    }
}

/* Latin Extended-A, -B and Additional, schwa and ezh, and the apostrophes that are letters. */
static void latin_add(Charset *c)
{
    static const uint32_t range[][2] = {
        { 0x100, 0x24F }, { 0x259, 0x259 }, { 0x292, 0x292 }, { 0x2BB, 0x2BC }, { 0x1E00, 0x1EFF }
    };
    for (size_t i = 0; i < COUNT(range); i++)
        for (uint32_t point = range[i][0]; point <= range[i][1]; point++) class_set(c, point, LETTER_);
}

static Status name_unknown(const char *name, size_t bytes)
{
    char names[400] = "";
    for (int i = 0; i < LANGUAGES; i++) message_add(names, sizeof names, "%s, ", languages[i].name);
    return fail(BAD_OPTION, "--charset %.*s: no such language; %sor latin for all Latin letters", (int)bytes,
                name, names);
}

static Status name_add(Charset *c, const char *name, size_t bytes)
{
    if (bytes == 5 && !memcmp(name, "latin", 5)) {
        latin_add(c);
        return OK;
    }
    for (int i = 0; i < LANGUAGES; i++) {
        if (strlen(languages[i].name) != bytes || memcmp(name, languages[i].name, bytes) != 0) continue;
        characters_add(c, languages[i].own, LETTER_);
        characters_add(c, languages[i].loan, LETTER_);
        return OK;
    }
    return name_unknown(name, bytes);
}

static Status names_add(Charset *c, const char *names)
{
    for (size_t bytes; ; names += bytes + 1) {
        bytes = strcspn(names, ",");
        TRY(name_add(c, names, bytes));
        if (!names[bytes]) return OK;
    }
}

Status charset_open(Charset **charset, const CharsetPlan *plan)
{
    *charset = NULL;
    Charset *c = malloc(sizeof *c);
    if (!c) return fail(NO_MEMORY, "no memory for the table of character classes");
    c->plan = *plan;
    for (uint32_t point = 0; point < TABLE; point++) c->class[point] = (uint8_t)class_of(plan->emoji, point);
    for (int i = 0; i < COMMONS; i++) characters_add(c, common[i], SIGN);
    Status status = names_add(c, plan->names);
    if (status == OK) *charset = c;
    else              charset_close(c);
    return status;
}

void charset_close(Charset *c) { free(c); }

/* ---- finding characters of a class ---- */

static unsigned class_at(const Charset *c, const char *text, int64_t left, int *bytes)
{
    Rune r = rune_at((const uint8_t *)text, left);
    *bytes = r.bytes;
    return r.point < TABLE ? c->class[r.point] : (unsigned)class_of(c->plan.emoji, r.point);
}

/* One bit for each of the 16 bytes at p that begins a character whose class must be looked up: all but
 * printable ASCII, \n and \t, which need no action in any charset. */
static uint32_t lookup_bits(const char *p)
{
    Bytes16 v = bytes16_at(p);
    return bytes16_bits((v >= 0xC0) | (v == 0x7F) | ((v < 0x20) & (v != '\n') & (v != '\t')));
}

/* The first character from `at` on whose class is in `mask`, or `bytes`. The mask must not have SIGN or
 * LETTER_, since ASCII is skipped 16 bytes at a time. */
static int64_t class_next(const Charset *c, const char *text, int64_t at, int64_t bytes, unsigned mask)
{
    int length;
    for (; bytes - at >= 16; at += 16) {
        for (uint32_t bits = lookup_bits(text + at); bits; bits &= bits - 1) {
            int64_t  here = at + __builtin_ctz(bits);
            uint8_t  lead = (uint8_t)text[here];
            unsigned class = lead < 0x80 ? c->class[lead]
                : lead < 0xE0 && here + 1 < bytes ? c->class[(lead & 31u) << 6 | (text[here + 1] & 63u)]
                : class_at(c, text + here, bytes - here, &length);
            if (mask >> class & 1) return here;
        }
    }
    /* the rest of a character that began in the last 16 bytes */
    while (at < bytes && ((uint8_t)text[at] & 0xC0) == 0x80) at++;
    for (; at < bytes; at += length)
        if (mask >> class_at(c, text + at, bytes - at, &length) & 1) return at;
    return bytes;
}

/* ---- normalizing ---- */

/* The text becomes NFC. The normalizer works in the memory of `spare`, which is handed to it and taken
 * back, grown or not; where the result differs the buffers are swapped. */
static Status nfc(Buffer *text, Buffer *spare, CharsetVerdict *v)
{
    static const Normalizer steps = { .step = { { .kind = NORMALIZER_NFC } }, .steps = 1 };
    NormalizerBuffers words = { .text = { { (uint8_t *)spare->text, spare->capacity } } };
    Chars chars = { (const uint8_t *)text->text, text->bytes, 0 };
    Status status = normalizer_apply(&steps, &chars, &words);
    spare->text = (char *)words.text[0].data;
    spare->capacity = words.text[0].capacity;
    TRY(status);
    bool same = chars.bytes == text->bytes && !memcmp(chars.text, text->text, (size_t)text->bytes);
    if (same) return OK;
    Buffer other = *text;
    *text  = (Buffer){ spare->text, chars.bytes, spare->capacity };
    *spare = other;
    v->count[CHARSET_NORMALIZED] = 1;
    return OK;
}

/* Counts and writes one character at `to`; returns the new end. \r\n becomes one \n. */
static int64_t character_rewrite(Buffer *text, int64_t to, int64_t at, CharClass class, CharsetVerdict *v)
{
    bool pair = class == BREAK && text->text[at] == '\r' && at + 1 < text->bytes &&
                text->text[at + 1] == '\n';
    if (class == INVISIBLE) v->count[CHARSET_INVISIBLE]++;
    if (class == EMOJI)     v->count[CHARSET_EMOJI]++;
    if (class == BLANK)     v->count[CHARSET_BLANK]++;
    if (class == BLANK)          text->text[to++] = ' ';
    if (class == BREAK && !pair) text->text[to++] = '\n';
    return to;
}

/* In place: no replacement is longer than what it replaces, so writing never overtakes reading. */
static void text_rewrite(const Charset *c, Buffer *text, CharsetVerdict *v)
{
    int64_t to = 0, at = 0, next;
    int length;
    for (; at < text->bytes; at = next + length) {
        next = class_next(c, text->text, at, text->bytes, REWRITTEN | REWRITTEN << MAY_NORMALIZE);
        memmove(text->text + to, text->text + at, (size_t)(next - at));
        to += next - at;
        if (next == text->bytes) break;
        unsigned class = class_at(c, text->text + next, text->bytes - next, &length) & 7;
        to = character_rewrite(text, to, next, (CharClass)class, v);
    }
    text->bytes = to;
}

/* ---- foreign characters ---- */

/* `to`: where the parenthesis begins in the output; letters, foreign: the line's counts before it; cut: an
 * inner one was removed. */
typedef struct { int64_t to, letters, foreign; bool cut; } OpenParenthesis;
typedef struct {
    int64_t to, letters, foreign;
    OpenParenthesis open[DEPTH_MOST];
    int depth, deeper;
} LineState;

/* At a closing parenthesis; j->to is the end of it. If its share of foreign characters is above the limit
 * it is removed with the space before it, and its letters no longer count for what surrounds it. A
 * parenthesis that lost an inner one and has no letters left is removed too. */
static void parenthesis_close(const Charset *c, char *out, int64_t begin, LineState *j, CharsetVerdict *v)
{
    OpenParenthesis *o = &j->open[--j->depth];
    int64_t letters = j->letters - o->letters, foreign = j->foreign - o->foreign;
    bool    emptied = o->cut && !letters && !foreign;
    if (!emptied && (!foreign || (double)foreign <= c->plan.parenthesis * (double)(letters + foreign)))
        return;
    j->to      = o->to;
    j->letters = o->letters;
    j->foreign = o->foreign;
    if (j->to > begin && out[j->to - 1] == ' ') j->to--;
    if (j->depth) j->open[j->depth - 1].cut = true;
    v->count[CHARSET_PARENTHESIS]++;
}

static void parenthesis_at(const Charset *c, char *out, int64_t begin, char which, LineState *j,
                           CharsetVerdict *v)
{
    if (which == '(') {
        if (j->depth == DEPTH_MOST) j->deeper++;
        else j->open[j->depth++] = (OpenParenthesis){ j->to - 1, j->letters, j->foreign, false };
        return;
    }
    if (j->deeper)     j->deeper--;
    else if (j->depth) parenthesis_close(c, out, begin, j, v);
}

/* A line that has foreign characters, without its line end: copies it to `to` without the parentheses that
 * are removed. Returns where it ends now, and its remaining letters and foreign characters. */
static LineState line_filter(const Charset *c, char *text, int64_t to, int64_t at, int64_t end,
                            CharsetVerdict *v)
{
    LineState j = { .to = to };
    for (int length; at < end; at += length) {
        unsigned class = class_at(c, text + at, end - at, &length) & 7;
        char     first = text[at];
        j.letters += class == LETTER_ && (length > 1 || (unsigned)((first | 0x20) - 'a') < 26);
        j.foreign += class == FOREIGN_LETTER || class == FOREIGN_SIGN;
        memmove(text + j.to, text + at, (size_t)length);
        j.to += length;
        if (first == '(' || first == ')') parenthesis_at(c, text, to, first, &j, v);
    }
    return j;
}

/* A line of which nothing is left after its parentheses were removed is dropped too; it does not count
 * as foreign. */
static void lines_filter(const Charset *c, Buffer *text, CharsetVerdict *v)
{
    int64_t to = 0, lines = 0, next;
    for (int64_t at = 0; at < text->bytes; at = next) {
        char   *found = memchr(text->text + at, '\n', (size_t)(text->bytes - at));
        int64_t end = found ? found - text->text : text->bytes;
        next = end + (found != NULL);
        bool empty = has_only(text->text + at, end - at, " \t");
        bool plain = class_next(c, text->text, at, end, FOREIGN | FOREIGN << MAY_NORMALIZE) == end;
        lines += !empty;
        LineState j = { .to = to + end - at };
        if (plain) memmove(text->text + to, text->text + at, (size_t)(end - at));
        else       j = line_filter(c, text->text, to, at, end, v);
        bool foreign = !plain && j.foreign &&
                       (double)j.foreign > c->plan.line * (double)(j.letters + j.foreign);
        v->count[CHARSET_LINE] += foreign;
        if (foreign || (!plain && has_only(text->text + to, j.to - to, " \t"))) continue;
        to = j.to;
        if (found) text->text[to++] = '\n';
    }
    text->bytes = to;
    v->dropped  = (double)v->count[CHARSET_LINE] > c->plan.lines * (double)lines;
}

/* Most documents have no foreign character and are not split into lines. */
static void foreign_filter(const Charset *c, Buffer *text, CharsetVerdict *v)
{
    int64_t at = class_next(c, text->text, 0, text->bytes, FOREIGN | FOREIGN << MAY_NORMALIZE);
    if (at == text->bytes) return;
    v->first = rune_at((const uint8_t *)text->text + at, text->bytes - at).point;
    if (c->plan.mode == CHARSET_STRICT) v->dropped = true;
    if (c->plan.mode == CHARSET_GRADED) lines_filter(c, text, v);
    v->count[CHARSET_DOCUMENT] = v->dropped;
}

Status charset_apply(const Charset *c, Buffer *text, Buffer *spare, CharsetVerdict *v)
{
    *v = (CharsetVerdict){ 0 };
    unsigned work = REWRITTEN | FOREIGN | MAY_NORMALIZE_ALL;
    if (class_next(c, text->text, 0, text->bytes, work) == text->bytes) return OK;
    /* Before NFC, because invisible characters that it removes may separate a letter from its combining
     * mark. */
    text_rewrite(c, text, v);
    if (class_next(c, text->text, 0, text->bytes, MAY_NORMALIZE_ALL) < text->bytes) TRY(nfc(text, spare, v));
    foreign_filter(c, text, v);
    return OK;
}

/* ---- text that is searched for ---- */

Status normalized_query_open(NormalizedQuery *n)
{
    CharsetPlan plan = CHARSET_PLAN;
    plan.mode = CHARSET_NONE;
    *n = (NormalizedQuery){ 0 };
    return charset_open(&n->charset, &plan);
}

Status normalized_query_take(NormalizedQuery *n, const char *text, int64_t bytes)
{
    CharsetVerdict verdict;
    n->text.bytes = 0;
    TRY(utf8_repair(&n->text, text, bytes));
    return charset_apply(n->charset, &n->text, &n->spare, &verdict);
}

void normalized_query_close(NormalizedQuery *n)
{
    if (n->charset) charset_close(n->charset);
    buffer_free(&n->text);
    buffer_free(&n->spare);
}
