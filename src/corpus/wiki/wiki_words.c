/* The words come from MediaWiki's message files (redirects, namespaces) and from the headings and
 * templates that are frequent in the dumps of the large wikis. Tables are searched linearly; the first
 * byte rejects most rows. */
#include "corpus/wiki/wikitext.h"

#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "text/unicode.h"

enum { WORD_MOST = 96 };                       /* bytes; longer words are in no table */

/* ---- comparing ---- */

/* Writes text in lower case, with _ as a blank. What exceeds the capacity is cut off; no row of a table is
 * so long. */
static int64_t fold_case(char *out, int64_t capacity, const char *text, int64_t bytes)
{
    int64_t length = 0;
    for (int64_t at = 0; at < bytes && length + 4 <= capacity; ) {
        uint8_t c = (uint8_t)text[at];
        if (c < 0x80) {
            out[length++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c == '_' ? ' ' : (char)c;
            at++;
            continue;
        }
        Rune rune = rune_at((const uint8_t *)text + at, bytes - at);
        at += rune.bytes;
        if (rune.point != RUNE_BROKEN)
            length += utf8_encode((uint8_t *)out + length,
                                 (uint32_t)utf8proc_tolower((utf8proc_int32_t)rune.point));
    }
    return length;
}

/* ---- redirects ---- */

static const char *const redirects[] = {        /* as in MediaWiki's message files */
    "#redirect", "#omdirigering", "#omdiriger", "#weiterleitung", "#redirection", "#redirección",
    "#redireccion", "#redirecionamento", "#rinvia", "#rinvio", "#rimando", "#doorverwijzing", "#ohjaus",
    "#uudelleenohjaus", "#tilvísun", "#suuna", "#peradresavimas", "#patrz", "#przekieruj", "#tam",
    "#přesměruj", "#presmeruj", "#átirányítás", "#redirecteaza", "#preusmjeri", "#preusmeri",
    "#preusmeritev", "#преусмери", "#пренасочване", "#виж",
    "#перенаправление", "#перенапр", "#перенаправлення",
    "#перанакіраванне", "#пренасочување", "#ανακατευθυνση",
    "#yönlendirme", "#birzuzendu", "#athsheoladh", "#ail-cyfeirio", "#ailgyfeirio", "#ridrejto",
    "#alidirektu", "#adkas",
};

/* At most 60 bytes are folded: no redirect word is longer. */
bool wiki_word_redirect(const char *text, int64_t bytes)
{
    char word[64];
    int64_t at = 0, length;
    while (at < bytes && memchr(" \t\r\n", text[at], 4)) at++;
    if (at == bytes || text[at] != '#') return false;
    length = fold_case(word, sizeof word, text + at, bytes - at < 60 ? bytes - at : 60);
    for (size_t i = 0; i < COUNT(redirects); i++) {
        int64_t n = (int64_t)strlen(redirects[i]);
        if (length >= n && !memcmp(word, redirects[i], (size_t)n) &&
            (length == n || memchr(" \t\n:[", word[n], 5)))
            return true;
    }
    return false;
}

/* ---- links and sections ---- */

/* Files, then categories, then languages with longer codes. */
static const char *const hidden_prefixes[] = {
    "file", "image", "fil", "bild", "bilde", "datei", "archivo", "imagen", "fichier", "immagine",
    "ficheiro", "imagem", "bestand", "afbeelding", "billede", "tiedosto", "kuva", "plik", "grafika",
    "soubor", "súbor", "obrázok", "fájl", "kép", "fișier", "imagine", "datoteka", "slika", "файл",
    "изображение", "картинка", "зображення", "датотека", "слика",
    "выява", "αρχείο", "εικόνα", "dosya", "resim", "fitxer", "imatge", "fitxategi",
    "irudi", "imaxe", "mynd", "fail", "pilt", "attēls", "vaizdas", "íomhá", "delwedd", "skedari",
    "figura", "restr", "skeudenn", "dosiero", "stampa", "category", "kategori", "kategorie", "categoría",
    "catégorie", "categoria", "categorie", "luokka", "kategoria", "kategória", "kategorija",
    "категория", "категорія", "катэгорыя", "категорија",
    "κατηγορία", "flokkur", "kategooria", "catagóir", "categori", "kategorio", "rummad", "simple",
    "zh-min-nan", "zh-yue", "zh-classical", "be-x-old", "be-tarask", "roa-rup", "roa-tara", "bat-smg",
    "cbk-zam", "fiu-vro", "map-bms", "nds-nl", "ru-sib",
};

/* Headings of sections without running text, language by language. */
static const char *const end_headings[] = {
    "referenser", "källor", "noter", "externa länkar", "extern länk", "se även", "fotnoter",
    "källhänvisningar", "källförteckning", "noter och referenser", "källor och noter",
    "noter och källor", "referenser och noter", "vidare läsning", "externa referenser", "tryckta källor",
    "webbkällor", "references", "notes", "footnotes", "external links", "external link", "see also",
    "further reading", "sources", "citations", "bibliography", "works cited", "notes and references",
    "references and notes", "einzelnachweise", "weblinks", "siehe auch", "literatur", "quellen",
    "fußnoten", "anmerkungen", "belege", "nachweise", "anmerkungen und einzelnachweise",
    "notes et références", "références", "voir aussi", "liens externes", "lien externe",
    "articles connexes", "bibliographie", "annexes", "referencias", "véase también", "enlaces externos",
    "notas", "bibliografía", "fuentes", "notas y referencias", "note", "voci correlate",
    "collegamenti esterni", "altri progetti", "bibliografia", "referências", "ver também",
    "ligações externas", "notas e referências", "referenties", "bronnen", "zie ook", "externe links",
    "externe link", "voetnoten", "noten", "bronnen, noten en/of referenties", "literatuur",
    "bronvermelding", "referencer", "kilder", "eksterne henvisninger", "eksterne links", "se også",
    "fodnoter", "henvisninger", "referanser", "eksterne lenker", "litteratur", "referansar", "kjelder",
    "sjå òg", "sjå også", "fotnotar", "eksterne lenkjer", "bakgrunnsstoff", "lähteet", "viitteet",
    "aiheesta muualla", "katso myös", "ulkoiset linkit", "viitteet ja lähteet", "lähteet ja viitteet",
    "kirjallisuutta", "huomautukset", "tilvísanir", "tenglar", "heimildir", "tengt efni", "viited",
    "vaata ka", "välislingid", "allikad", "kirjandus", "przypisy", "zobacz też", "linki zewnętrzne",
    "uwagi", "reference", "odkazy", "externí odkazy", "související články", "poznámky", "literatura",
    "referencie", "pozri aj", "externé odkazy", "iné projekty", "zdroje", "jegyzetek", "források",
    "további információk", "lásd még", "külső hivatkozások", "referințe", "vezi și",
    "legături externe", "bibliografie", "примечания", "ссылки", "см. также",
    "литература", "источники", "комментарии", "примітки",
    "посилання", "див. також", "джерела", "література",
    "източници", "бележки", "външни препратки", "вижте също",
    "крыніцы", "заўвагі", "спасылкі", "izvori", "bilješke", "vanjske poveznice",
    "vidi još", "vidi također", "sklici", "viri", "zunanje povezave", "glej tudi",
    "спољашње везе", "види још", "референце", "извори",
    "надворешни врски", "наводи", "поврзано", "παραπομπές",
    "πηγές", "εξωτερικοί σύνδεσμοι", "δείτε επίσης",
    "σημειώσεις", "kaynakça", "dış bağlantılar", "ayrıca bakınız", "notlar",
    "referències", "vegeu també", "enllaços externs", "erreferentziak", "kanpo estekak", "ikus, gainera",
    "véxase tamén", "ligazóns externas", "outros artigos", "šaltiniai", "nuorodos", "išnašos",
    "taip pat skaitykite", "atsauces", "ārējās saites", "skatīt arī", "tagairtí",
    "naisc sheachtracha", "cyfeiriadau", "dolenni allanol", "gweler hefyd", "referime",
    "lidhje të jashtme", "shih edhe",
};

static bool row_has(const char *const *row, size_t rows, const char *word, int64_t bytes)
{
    for (size_t i = 0; i < rows; i++)
        if (row[i][0] == word[0] && strlen(row[i]) == (size_t)bytes && !memcmp(row[i], word, (size_t)bytes))
            return true;
    return false;
}

/* Lower case without blanks at both ends; -1: empty or too long. */
static int64_t word_fold(char word[WORD_MOST], const char *text, int64_t bytes)
{
    while (bytes && memchr(" _\t\n", *text, 4)) text++, bytes--;
    while (bytes && memchr(" _\t\n", text[bytes - 1], 4)) bytes--;
    return bytes == 0 || bytes > WORD_MOST - 8 ? -1 : fold_case(word, WORD_MOST, text, bytes);
}

/* A prefix of two or three lower-case letters is a language: titles of articles do not begin like that. */
bool wiki_word_hidden(const char *prefix, int64_t bytes)
{
    char word[WORD_MOST];
    int64_t lower = 0, length = word_fold(word, prefix, bytes);
    while (lower < bytes && prefix[lower] >= 'a' && prefix[lower] <= 'z') lower++;
    if (lower == bytes && (bytes == 2 || bytes == 3)) return true;
    return length > 0 && row_has(hidden_prefixes, COUNT(hidden_prefixes), word, length);
}

bool wiki_word_end(const char *heading, int64_t bytes)
{
    char word[WORD_MOST];
    int64_t length = word_fold(word, heading, bytes);
    if (length > 1 && word[length - 1] == ':') length--;
    return length > 0 && row_has(end_headings, COUNT(end_headings), word, length);
}

/* ---- templates ---- */

#define KEEP(first, last, before, between, after, ...) \
    { first, last, before, between, after, { __VA_ARGS__ } },
static const WikiTemplate templates[] = {
#include "corpus/wiki/wiki_templates.def"
};
#undef KEEP

/* A name that ends with "-" matches all names that begin so. */
const WikiTemplate *wiki_word_template(const char *name, int64_t bytes)
{
    char word[WORD_MOST];
    int64_t length = word_fold(word, name, bytes);
    for (size_t i = 0; length > 0 && i < COUNT(templates); i++)
        for (const char *const *known = templates[i].names; *known; known++) {
            if ((*known)[0] != word[0]) continue;
            size_t own = strlen(*known);
            bool begins = (size_t)length >= own && !memcmp(*known, word, own);
            bool prefix = own > 1 && (*known)[own - 1] == '-';
            if (begins && (prefix || own == (size_t)length)) return &templates[i];
        }
    return NULL;
}

bool wiki_word_range(const char *text, int64_t bytes)
{
    static const char *const words[] = { "-", "–", "to", "to(-)", "and", "or", "x", "×", "by", "+", "±",
                                         "+/-", "och", "till", "og", "til", "und", "bis" };
    char word[WORD_MOST];
    int64_t length = word_fold(word, text, bytes);
    return length > 0 && row_has(words, COUNT(words), word, length);
}

/* ---- characters: the table has a row for each run of consecutive code points, so that the code point is
 * the row's first plus the index of the name in the row ---- */

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

static uint32_t name_find(const char *name, int64_t bytes)
{
    if (bytes == 4 && !memcmp(name, "nbsp", 4)) return 0xa0;            /* nine of ten references */
    for (size_t i = 0; bytes && i < COUNT(entities); i++) {
        int index = words_find(entities[i].names, name, (size_t)bytes);
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
