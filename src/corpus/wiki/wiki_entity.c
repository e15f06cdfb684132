/* The table of named characters has a row for each run of consecutive code points, so that the code point
 * is the row's first plus the index of the name in the row. */
#include "corpus/wiki/wiki_entity.h"

#include <stdbool.h>
#include <string.h>
#include "base/array.h"

enum { NAME_MOST = 10 };                        /* bytes; no name is longer */

/* Names of consecutive code points, the first of which is `first`. */
static const struct { uint32_t first; const char *names; } entities[] = {
    { 0x22,  "quot" }, { 0x26, "amp apos" }, { 0x3c, "lt" }, { 0x3e, "gt" },
    { 0xa0,  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para"
             " middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest" },
    { 0xc0,  "Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve"
             " Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig" },
    { 0xe0,  "agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve"
             " oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml" },
    { 0x152, "OElig oelig" }, { 0x160, "Scaron scaron" }, { 0x178, "Yuml" }, { 0x192, "fnof" }, { 0x2c6, "circ" }, { 0x2dc, "tilde" },
    { 0x391, "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho" },
    { 0x3a3, "Sigma Tau Upsilon Phi Chi Psi Omega" },
    { 0x3b1, "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi chi"
             " psi omega" },
    { 0x3d1, "thetasym upsih" }, { 0x3d6, "piv" }, { 0x2002, "ensp emsp" }, { 0x2009, "thinsp" }, { 0x200c, "zwnj zwj lrm rlm" },
    { 0x2013, "ndash mdash" }, { 0x2018, "lsquo rsquo sbquo" }, { 0x201c, "ldquo rdquo bdquo" }, { 0x2020, "dagger Dagger bull" },
    { 0x2026, "hellip" }, { 0x2030, "permil" }, { 0x2032, "prime Prime" }, { 0x2039, "lsaquo rsaquo" }, { 0x203e, "oline" },
    { 0x2044, "frasl" }, { 0x20ac, "euro" }, { 0x2111, "image" }, { 0x2118, "weierp" }, { 0x211c, "real" }, { 0x2122, "trade" },
    { 0x2135, "alefsym" }, { 0x2190, "larr uarr rarr darr harr" }, { 0x21b5, "crarr" }, { 0x21d0, "lArr uArr rArr dArr hArr" },
    { 0x2200, "forall" }, { 0x2202, "part exist" }, { 0x2205, "empty" }, { 0x2207, "nabla isin notin" }, { 0x220b, "ni" },
    { 0x220f, "prod" }, { 0x2211, "sum minus" }, { 0x2217, "lowast" }, { 0x221a, "radic" }, { 0x221d, "prop infin" }, { 0x2220, "ang" },
    { 0x2227, "and or cap cup int" }, { 0x2234, "there4" }, { 0x223c, "sim" }, { 0x2245, "cong" }, { 0x2248, "asymp" },
    { 0x2260, "ne equiv" }, { 0x2264, "le ge" }, { 0x2282, "sub sup nsub" }, { 0x2286, "sube supe" }, { 0x2295, "oplus" },
    { 0x2297, "otimes" }, { 0x22a5, "perp" }, { 0x22c5, "sdot" }, { 0x2308, "lceil rceil lfloor rfloor" }, { 0x2329, "lang rang" },
    { 0x25ca, "loz" }, { 0x2660, "spades" }, { 0x2663, "clubs" }, { 0x2665, "hearts diams" },
};

/* Index of the name in a row of names; -1: it is not there. */
static int name_index(const char *names, const char *name, size_t bytes)
{
    for (int index = 0; *names; index++) {
        size_t length = strcspn(names, " ");
        if (length == bytes && !memcmp(names, name, bytes)) return index;
        names += length + (names[length] == ' ');
    }
    return -1;
}

static uint32_t name_find(const char *name, int64_t bytes)
{
    if (bytes == 4 && !memcmp(name, "nbsp", 4)) return 0xa0;            /* nine of ten references */
    for (size_t i = 0; bytes && i < COUNT(entities); i++) {
        int index = name_index(entities[i].names, name, (size_t)bytes);
        if (index >= 0) return entities[i].first + (uint32_t)index;
    }
    return 0;
}

/* Values above U+10FFFF end the loop early, so the number cannot overflow. */
uint32_t entity_number(const char *text, int64_t bytes)
{
    int base = bytes && (*text == 'x' || *text == 'X') ? 16 : 10;
    int64_t i = base == 16, first = i;
    uint32_t point = 0;
    for (; i < bytes && point < 0x110000; i++) {
        int c = text[i] | 0x20, digit = text[i] >= '0' && text[i] <= '9' ? text[i] - '0'
                                        : c >= 'a' && c <= 'f'           ? c - 'a' + 10
                                                                         : 99;
        if (digit >= base) return 0;
        point = point * (uint32_t)base + (uint32_t)digit;
    }
    bool whole = i == bytes && i > first && point < 0x110000 && (point < 0xd800 || point > 0xdfff);
    return whole ? point : 0;
}

/* The reference that follows '&', with its ';'. *length 0: there is none. */
static uint32_t reference_at(const char *text, int64_t bytes, int64_t *length)
{
    int64_t most = bytes < NAME_MOST ? bytes : NAME_MOST, n = 0;
    while (n < most && text[n] != ';' &&
           (text[n] == '#' || (text[n] >= '0' && text[n] <= '9') || (text[n] | 0x20) >= 'a'))
        n++;
    *length = 0;
    if (n == most || text[n] != ';') return 0;
    uint32_t point = *text == '#' ? entity_number(text + 1, n - 1) : name_find(text, n);
    if (point) *length = n + 1;
    return point;
}

uint32_t entity_at(const char *text, int64_t bytes, int64_t *length)
{
    uint32_t point = reference_at(text + 1, bytes - 1, length);
    if (!*length) return 0;
    ++*length;
    if (point != '&') return point;
    int64_t more;
    uint32_t second = reference_at(text + *length, bytes - *length, &more);
    *length += more;
    return more ? second : point;
}
