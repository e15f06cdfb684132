/* Words that are looked for in documents: stop words, of which prose has some, and the words and phrases
 * of --bad-words, of which it should have none. Both are compared in lower case. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "corpus/quality/quality_internal.h"
#include "corpus/dedup/normalized_query.h"
#include "text/unicode.h"

/* Writes the lower-case form of the character at `text`, at most four bytes; returns how many. *length:
 * bytes of the character itself. */
static int lower_write(uint8_t out[4], const char *text, int64_t left, int *length)
{
    Rune r = rune_at((const uint8_t *)text, left);
    *length = r.bytes;
    if (r.point < 0x80) {
        out[0] = (uint8_t)(r.kind & UPPER ? r.point | 0x20 : r.point);
        return 1;
    }
    if (r.point == RUNE_BROKEN) {
        out[0] = (uint8_t)*text;
        return 1;
    }
    return utf8_encode(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)r.point));
}

/* ---- stop words ---- */

static const struct { const char *language, *words; } stop_lists[] = {
#define STOP(language, words) { language, words },
#include "corpus/quality/quality_stop.def"
#undef STOP
};
enum { STOP_LISTS = COUNT(stop_lists) };

/* Eight bytes of ASCII in lower case: subtractions with the high bit set mark the bytes from A to Z, and
 * bit 5 is added to these. No borrow crosses a byte. */
static uint64_t lower_eight(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    /* no borrow crosses a byte */
    uint64_t capital = ((word | high) - ones * 'A') & ~((word | high) - ones * ('Z' + 1)) & high;
    return word | capital >> 2;
}

/* The bytes of the lower-case form as one number, the first lowest; 0: it is longer than STOP_BYTES. */
static uint64_t stop_key(const char *text, int64_t bytes)
{
    uint64_t plain = 0;
    for (int64_t i = 0; i < bytes && i < 8; i++) plain |= (uint64_t)(uint8_t)text[i] << 8 * i;
    if (bytes <= 8 && !(plain & 0x8080808080808080u)) return lower_eight(plain);
    uint64_t key = 0;
    int used = 0, length;
    for (int64_t at = 0; at < bytes; at += length) {
        uint8_t out[4];
        int wrote = lower_write(out, text + at, bytes - at, &length);
        if (used + wrote > STOP_BYTES) return 0;
        for (int i = 0; i < wrote; i++) key |= (uint64_t)out[i] << 8 * used++;
    }
    return key;
}

static int slot_of(const StopWords *w, uint64_t key)
{
    int at = (int)(key * 0x9E3779B97F4A7C15u >> 58);
    while (w->key[at] && w->key[at] != key) at = (at + 1) % STOP_SLOTS;
    return at;
}

int stop_word_slot(const StopWords *w, const char *text, int64_t bytes)
{
    uint64_t key = stop_key(text, bytes);
    int at = key ? slot_of(w, key) : 0;
    return key && w->key[at] ? at : -1;
}

Status stop_words_find(StopWords *w, const char *language)
{
    /* Of several languages, as in --charset sv,se, the first has the stop words. */
    size_t length = language ? strcspn(language, ",") : 0;
    *w = (StopWords){ 0 };
    for (int i = 0; i < STOP_LISTS; i++) {
        if (!length || strlen(stop_lists[i].language) != length ||
            strncmp(stop_lists[i].language, language, length) != 0)
            continue;
        for (const char *at = stop_lists[i].words; *at; at += strspn(at, " ")) {
            size_t bytes = strcspn(at, " ");
            uint64_t key = stop_key(at, (int64_t)bytes);
            CHECK(key, "%s: a stop word above %d bytes: %s", language, STOP_BYTES, at);
            w->key[slot_of(w, key)] = key;
            at += bytes;
        }
        return OK;
    }
    return fail(BAD_OPTION,
                "%s%s: no stop words are known for it; switch the rule off: --quality-rules stop-words=off",
                language ? "language " : "no language is named", language ? language : "");
}

/* ---- bad words ---- */

/* The hash of a phrase is made of those of its words; what is between words makes no difference. set: an
 * open-addressing hash set of the keys of phrases and of their first words, 0 free. */
enum { PHRASE_MOST = 8 };
struct BadWords {
    uint64_t *set;
    int64_t   slots;
    int       longest;                  /* words */
};

static bool set_has(const BadWords *b, uint64_t key)
{
    int64_t at = (int64_t)(key & (uint64_t)(b->slots - 1));
    while (b->set[at] && b->set[at] != key) at = (at + 1) & (b->slots - 1);
    return b->set[at] != 0;
}

static void set_put(BadWords *b, uint64_t key)
{
    int64_t at = (int64_t)(key & (uint64_t)(b->slots - 1));
    while (b->set[at] && b->set[at] != key) at = (at + 1) & (b->slots - 1);
    b->set[at] = key;
}

/* The hash of the next run of letters, digits and _ in lower case; 0 at the end of the text. It is made
 * byte by byte (FNV-1a with another addend), so that a word of any length needs no memory. */
static uint64_t next_word(const char *text, int64_t bytes, int64_t *at)
{
    uint64_t hash = 0;
    for (int length; *at < bytes; *at += length) {
        uint8_t out[4];
        Rune r = rune_at((const uint8_t *)text + *at, bytes - *at);
        bool inner = r.kind & (LETTER | NUMBER) || r.point == '_';
        if (!inner && hash) break;
        int wrote = lower_write(out, text + *at, bytes - *at, &length);
        for (int i = 0; inner && i < wrote; i++)
            hash = (hash ^ out[i]) * 0x100000001B3u + 0x9E3779B97F4A7C15u;
    }
    return hash;
}

static uint64_t phrase_add(uint64_t phrase, uint64_t word)
{
    return (phrase ^ word) * 0xC2B2AE3D27D4EB4Fu | 1;
}
/* The first word of a phrase has another key than the phrase that consists of it alone. */
static uint64_t first_word_key(uint64_t word)
{
    return (word ^ 0x165667B19E3779F9u) * 0x9E3779B97F4A7C15u | 1;
}

/* One line of the file. Its first word is stored too, so that most words of a document cost one look-up. */
static Status phrase_put(BadWords *b, const char *line, int64_t bytes, const char *path, int64_t number)
{
    uint64_t phrase = 0, first = 0;
    int words = 0;
    for (int64_t at = 0; at < bytes; words++) {
        uint64_t word = next_word(line, bytes, &at);
        if (!word) break;
        if (!words) first = word;
        phrase = phrase_add(phrase, word);
    }
    if (words > PHRASE_MOST)
        return fail(BAD_FILE, "%s:%lld: a phrase of %d words, and %d are the most", path,
                    (long long)number, words, PHRASE_MOST);
    if (!words) return OK;
    set_put(b, phrase);
    set_put(b, first_word_key(first));
    if (words > b->longest) b->longest = words;
    return OK;
}

/* For the size of the set, which does not grow later. */
static int64_t lines_count(FILE *file)
{
    int64_t count = 1;
    for (int c; (c = getc(file)) != EOF; ) count += c == '\n';
    rewind(file);
    return count;
}

/* Each line is normalized as documents are (normalized_query.h). The set is at most half full: two keys a
 * line, four slots. */
static Status file_read(BadWords *b, NormalizedQuery *query, FILE *file, const char *path)
{
    char   *line = NULL;
    size_t  capacity = 0;
    ssize_t bytes;
    Status  status = OK;
    int64_t lines = lines_count(file);
    for (b->slots = 64; b->slots < 4 * lines; ) b->slots *= 2;
    b->set = calloc((size_t)b->slots, sizeof *b->set);
    if (!b->set) return fail(NO_MEMORY, "%s: no memory for its words", path);
    for (int64_t number = 1; status == OK && (bytes = getline(&line, &capacity, file)) >= 0; number++) {
        status = normalized_query_take(query, line, bytes);
        if (status == OK) status = phrase_put(b, query->text.text, query->text.bytes, path, number);
    }
    free(line);
    if (status == OK && ferror(file)) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    return status == OK && !b->longest
               ? fail(BAD_FILE, "%s: has no words, give a file with one word or phrase a line", path)
               : status;
}

Status bad_words_open(BadWords **words, const char *path)
{
    *words = NULL;
    FILE *file = fopen(path, "r");
    if (!file) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    NormalizedQuery    query;
    BadWords *b = calloc(1, sizeof *b);
    Status status = normalized_query_open(&query);
    if (status == OK)
        status = b ? file_read(b, &query, file, path) : fail(NO_MEMORY, "%s: no memory for its words", path);
    normalized_query_close(&query);
    fclose(file);
    if (status == OK) *words = b;
    else              bad_words_close(b);
    return status;
}

void bad_words_close(BadWords *b)
{
    if (!b) return;
    free(b->set);
    free(b);
}

/* How many phrases begin with `word`, whose end is `at`. */
static int64_t phrases_at(const BadWords *b, const char *text, int64_t bytes, int64_t at, uint64_t word)
{
    uint64_t phrase = phrase_add(0, word);
    int64_t  count  = set_has(b, phrase);
    for (int words = 1; words < b->longest && (word = next_word(text, bytes, &at)); words++) {
        phrase = phrase_add(phrase, word);
        count += set_has(b, phrase);
    }
    return count;
}

/* Linear for texts without bad words; at most PHRASE_MOST words are read again after the first word of a
 * phrase. */
int64_t bad_words_count(const BadWords *b, const char *text, int64_t bytes)
{
    int64_t count = 0, at = 0;
    for (uint64_t word; (word = next_word(text, bytes, &at)); )
        if (set_has(b, first_word_key(word))) count += phrases_at(b, text, bytes, at, word);
    return count;
}
