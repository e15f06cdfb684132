/* Moses' detokenizer for English. Rules are tried in order for each word: it is put behind the text with a
 * blank or without, and says whether the next one has a blank. */
#include "text/moses.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/unicode.h"

/* ---- replacing ---- */

typedef struct { const char *from, *to; } Replacement;

/* All places from left to right, in place, since `to` is no longer than `from`. */
static int64_t replace(char *text, int64_t bytes, Replacement r)
{
    int64_t from = (int64_t)strlen(r.from), to = (int64_t)strlen(r.to), used = 0;
    for (int64_t at = 0; at < bytes;) {
        if (bytes - at >= from && !memcmp(text + at, r.from, (size_t)from)) {
            memcpy(text + used, r.to, (size_t)to);
            used += to, at += from;
        } else text[used++] = text[at++];
    }
    return used;
}

/* Hyphens between words, and what Moses' tokenizer escapes, in its order. */
static const Replacement before[] = {
    { " @-@ ", "-" },  { "&bar;", "|" }, { "&#124;", "|" }, { "&lt;", "<" },
    { "&gt;", ">" },   { "&bra;", "[" }, { "&ket;", "]" },  { "&quot;", "\"" },
    { "&apos;", "'" }, { "&#91;", "[" }, { "&#93;", "]" },  { "&amp;", "&" },
};
static const Replacement wikitext[] = {
    { " @", "" }, { "@ ", "" }, { " =", "=" }, { "= ", "=" }, { " \xe2\x80\x93 ", "\xe2\x80\x93" },
};

int64_t moses_wikitext(char *text, int64_t bytes)
{
    for (size_t i = 0; i < COUNT(wikitext); i++)
        bytes = replace(text, bytes, wikitext[i]);
    return bytes;
}

/* ---- kinds of words ---- */

typedef struct { uint32_t first, last; } Points;

static bool among(uint32_t point, const Points *range, size_t ranges)
{
    for (size_t i = 0; i < ranges; i++)
        if (point >= range[i].first && point <= range[i].last) return true;
    return false;
}
#define AMONG(point, ranges) among(point, ranges, COUNT(ranges))

static const Points cjk[] = { { 4352, 4607 },     { 11904, 42191 },   { 43072, 43135 },  { 44032, 55215 },
                              { 63744, 64255 },   { 65072, 65103 },   { 65381, 65500 },  { 94208, 101119 },
                              { 110592, 110895 }, { 110960, 111359 }, { 131072, 196607 } };
/* Symbols of currencies, ( [ { and the opening marks of Spanish */
static const Points opening[] = {
    { '(', '(' },       { '[', '[' },       { '{', '{' },       { 0xbf, 0xbf },     { 0xa1, 0xa1 },
    { '$', '$' },       { 0xa2, 0xa5 },     { 0x58f, 0x58f },   { 0x60b, 0x60b },   { 0x9f2, 0x9f3 },
    { 0x9fb, 0x9fb },   { 0xaf1, 0xaf1 },   { 0xbf9, 0xbf9 },   { 0xe3f, 0xe3f },   { 0x17db, 0x17db },
    { 0x20a0, 0x20bd }, { 0xa838, 0xa838 }, { 0xfdfc, 0xfdfc }, { 0xfe69, 0xfe69 }, { 0xff04, 0xff04 },
    { 0xffe0, 0xffe1 }, { 0xffe5, 0xffe6 }
};
static const Points closing[] = { { ',', ',' },   { '.', '.' }, { '?', '?' }, { '!', '!' }, { ':', ';' },
                                  { '\\', '\\' }, { '%', '%' }, { '}', '}' }, { ']', ']' }, { ')', ')' } };
static const Points quotes[] = {
    { '\'', '\'' }, { '"', '"' }, { 0x201e, 0x201e }, { 0x201c, 0x201c }, { '`', '`' }
};
static const Points double_quotes[] = { { 0x201e, 0x201e }, { 0x201c, 0x201d } };
/* Letters of which sacremoses' table has none: Chinese, Japanese and Korean ones */
static const Points no_letters[] = {
    { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfad9 }, { 0x10000, 0x10ffff }
};

static bool all_among(TextSpan word, const Points *range, size_t ranges)
{
    for (int64_t at = 0; at < word.bytes;) {
        Rune r = rune_at((const uint8_t *)word.text + at, word.bytes - at);
        if (!among(r.point, range, ranges)) return false;
        at += r.bytes;
    }
    return true;
}
#define ALL_AMONG(word, ranges) all_among(word, ranges, COUNT(ranges))

static bool begins_cjk(TextSpan word)
{
    return AMONG(rune_at((const uint8_t *)word.text, word.bytes).point, cjk);
}

static bool ends_cjk(TextSpan word)
{
    int64_t at = word.bytes - 1;
    while (at > 0 && ((uint8_t)word.text[at] & 0xc0) == 0x80) at--;
    return begins_cjk((TextSpan){ word.text + at, word.bytes - at });
}

/* 's, 'll */
static bool is_contraction(TextSpan word)
{
    if (word.bytes < 2 || word.text[0] != '\'') return false;
    Rune r = rune_at((const uint8_t *)word.text + 1, word.bytes - 1);
    return r.kind & LETTER && !AMONG(r.point, no_letters);
}

/* ---- quotation marks ---- */

/* How often each kind of mark has been there; all double ones are one kind. */
typedef struct { TextSpan mark; int times; } QuoteCount;
typedef struct {
    QuoteCount *count, lost;
    int used, room;
    bool failed;
} Quotes; /* lost: without memory */

static QuoteCount *quote_count(Quotes *q, TextSpan mark)
{
    if (ALL_AMONG(mark, double_quotes)) mark = (TextSpan){ "\"", 1 };
    for (int i = 0; i < q->used; i++)
        if (q->count[i].mark.bytes == mark.bytes &&
            !memcmp(q->count[i].mark.text, mark.text, (size_t)mark.bytes))
            return &q->count[i];
    if (ARRAY_RESERVE(q->count, q->room, q->used + 1) != OK) return q->failed = true, &q->lost;
    q->count[q->used] = (QuoteCount){ mark, 0 };
    return &q->count[q->used++];
}

/* ---- words ---- */

/* The text that is made; blank: the next word that asks for one has a blank before it. */
typedef struct { char *out; int64_t bytes; bool blank; Quotes quotes; } Detokenizer;

static void put(Detokenizer *d, TextSpan word, bool apart, bool blank_after)
{
    if (apart && d->blank) d->out[d->bytes++] = ' ';
    memcpy(d->out + d->bytes, word.text, (size_t)word.bytes);
    d->bytes += word.bytes;
    d->blank = blank_after;
}

/* An opening mark is apart from the word before it, a closing one from the word after it. ' behind a word
 * that ends in s is a possessive. */
static void put_quote(Detokenizer *d, TextSpan word, TextSpan last)
{
    QuoteCount *count = quote_count(&d->quotes, word);
    bool opens = count->times % 2 == 0, single = word.bytes == 1 && word.text[0] == '\'';
    if (opens && single && last.bytes > 0 && last.text[last.bytes - 1] == 's') {
        put(d, word, false, true);
        return;
    }
    put(d, word, opens, !opens);
    count->times++;
}

/* last: the word before, without bytes at the beginning of a line */
static void put_word(Detokenizer *d, TextSpan word, TextSpan last)
{
    if (begins_cjk(word)) put(d, word, !(last.bytes > 0 && ends_cjk(last)), true);
    else if (ALL_AMONG(word, opening))                  put(d, word, true, false);
    else if (ALL_AMONG(word, closing))                  put(d, word, false, true);
    else if (last.bytes > 0 && is_contraction(word))    put(d, word, false, true);
    else if (ALL_AMONG(word, quotes))                   put_quote(d, word, last);
    else                                                put(d, word, true, true);
}

/* Blanks are never two, since words have none, and one at the beginning is left out. */
int64_t moses_detokenize(char *out, char *scratch, TextSpan line)
{
    line = text_strip(line);
    int64_t bytes = 0;
    scratch[bytes++] = ' ';
    memcpy(scratch + bytes, line.text, (size_t)line.bytes);
    bytes += line.bytes;
    scratch[bytes++] = ' ';
    for (size_t i = 0; i < COUNT(before); i++) bytes = replace(scratch, bytes, before[i]);
    TextSpan rest = { scratch, bytes }, word, last = { "", 0 };
    Detokenizer d = { .out = out, .blank = true };
    while (text_word_next(&rest, &word)) {
        put_word(&d, word, last);
        last = word;
    }
    free(d.quotes.count);
    if (d.quotes.failed) return -1;
    if (d.bytes > 0 && out[0] == ' ') memmove(out, out + 1, (size_t)--d.bytes);
    return d.bytes;
}
