/* The words come from MediaWiki's message files (redirects, namespaces) and from the headings and
 * templates that are frequent in the dumps of the large wikis. Tables are searched linearly; the first
 * byte rejects most rows. */
#include "corpus/wiki/wiki_words.h"

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
    return length > 0 &&
           row_has(hidden_prefixes, COUNT(hidden_prefixes), word, length);
}

bool wiki_word_end(const char *heading, int64_t bytes)
{
    char word[WORD_MOST];
    int64_t length = word_fold(word, heading, bytes);
    if (length > 1 && word[length - 1] == ':') length--;
    return length > 0 && row_has(end_headings, COUNT(end_headings), word, length);
}

/* ---- templates ---- */

#define KEEP(name, first, last, before, between, after) { name, first, last, before, between, after },
static const WikiTemplate templates[] = {
#include "corpus/wiki/wiki_templates.def"
};
#undef KEEP

/* The first row that matches counts; a name that ends with "-" matches all names that begin so. */
const WikiTemplate *wiki_word_template(const char *name, int64_t bytes)
{
    char word[WORD_MOST];
    int64_t length = word_fold(word, name, bytes);
    for (size_t i = 0; length > 0 && i < COUNT(templates); i++) {
        const WikiTemplate *t = &templates[i];
        if (t->name[0] != word[0]) continue;
        size_t own = strlen(t->name);
        bool begins = (size_t)length >= own && !memcmp(t->name, word, own);
        if (begins && (own == (size_t)length || (own > 1 && t->name[own - 1] == '-'))) return t;
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
