#include "corpus/wiki_words.h"

#include <string.h>
#include <utf8proc.h>
#include "text/unicode.h"

/* ---- comparing ---- */

/* Small letters, _ as a blank; text behind `room` bytes is cut off, which no row is as long as */
static int64_t folded(char *out, int64_t room, const char *text, int64_t bytes)
{
    int64_t length = 0;
    for (int64_t at = 0; at < bytes && length + 4 <= room; ) {
        Rune rune = rune_at((const uint8_t *)text + at, bytes - at);
        at += rune.bytes;
        if (rune.point == '_') rune.point = ' ';
        if (rune.point != RUNE_BROKEN)
            length += rune_write((uint8_t *)out + length, (uint32_t)utf8proc_tolower((utf8proc_int32_t)rune.point));
    }
    return length;
}

/* ---- redirects ---- */

static const char *const redirects[] = {        /* as MediaWiki's message files have them */
    "#redirect", "#omdirigering", "#omdiriger", "#weiterleitung", "#redirection", "#redirección", "#redireccion",
    "#redirecionamento", "#rinvia", "#rinvio", "#rimando", "#doorverwijzing", "#ohjaus", "#uudelleenohjaus", "#tilvísun",
    "#suuna", "#peradresavimas", "#patrz", "#przekieruj", "#tam", "#přesměruj", "#presmeruj", "#átirányítás",
    "#redirecteaza", "#preusmjeri", "#preusmeri", "#preusmeritev", "#преусмери", "#пренасочване", "#виж",
    "#перенаправление", "#перенапр", "#перенаправлення", "#перанакіраванне", "#пренасочување", "#ανακατευθυνση",
    "#yönlendirme", "#birzuzendu", "#athsheoladh", "#ail-cyfeirio", "#ailgyfeirio", "#ridrejto", "#alidirektu", "#adkas",
};

bool wiki_word_redirect(const char *text, int64_t bytes)
{
    char word[64];
    int64_t at = 0, length;
    while (at < bytes && memchr(" \t\r\n", text[at], 4)) at++;
    if (at == bytes || text[at] != '#') return false;
    length = folded(word, sizeof word, text + at, bytes - at < 60 ? bytes - at : 60);
    for (size_t i = 0; i < sizeof redirects / sizeof *redirects; i++) {
        int64_t n = (int64_t)strlen(redirects[i]);
        if (length >= n && !memcmp(word, redirects[i], (size_t)n) && (length == n || memchr(" \t\n:[", word[n], 5))) return true;
    }
    return false;
}
