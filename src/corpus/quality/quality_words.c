/* Words that are looked for in documents: stop words, of which prose has some, and the words and phrases
 * of --bad-words, of which it should have none. Both are compared in lower case. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "base/file.h"
#include "corpus/quality/quality_internal.h"
#include "corpus/quality/charset.h"
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
#define LANGUAGE(name, language, own, loan, stop_words) { name, stop_words },
#include "corpus/quality/languages.def"
#undef LANGUAGE
};
enum { STOP_LISTS = COUNT(stop_lists) };

/* Eight bytes of ASCII in lower case: subtractions with the high bit set mark the bytes from A to Z, and
 * bit 5 is added to these. No borrow crosses a byte. */
static uint64_t lower_eight(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
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

int stop_word_number(const GramTable *w, const char *text, int64_t bytes)
{
    uint64_t        key  = stop_key(text, bytes);
    const GramSlot *slot = key ? gram_table_find(w, key) : NULL;
    return slot ? slot->first : -1;
}

Status stop_words_find(GramTable *w, const char *language)
{
    /* Of several languages, as in --charset sv,se, the first has the stop words. */
    size_t length = language ? strcspn(language, ",") : 0;
    TRY(gram_table_clear(w, STOP_WORDS_MOST));
    for (int i = 0; i < STOP_LISTS; i++) {
        if (!length || strlen(stop_lists[i].language) != length ||
            strncmp(stop_lists[i].language, language, length) != 0)
            continue;
        int64_t number = 0;
        for (const char *at = stop_lists[i].words; *at; at += strspn(at, " ")) {
            size_t bytes = strcspn(at, " ");
            uint64_t key = stop_key(at, (int64_t)bytes);
            CHECK(key, "%s: a stop word above %d bytes: %s", language, STOP_BYTES, at);
            gram_table_put(w, key, number++);
            at += bytes;
        }
        return OK;
    }
    return fail(BAD_OPTION,
                "%s%s: no stop words are known for it; switch the rule off: --quality-rules stop-words=off",
                language ? "language " : "no language is named", language ? language : "");
}

/* ---- bad words ---- */

/* The hash of a phrase is made of those of its words; what is between words makes no difference. keys: of
 * phrases and of their first words. */
enum { PHRASE_MOST = 8 };
struct BadWords {
    GramTable keys;
    int       longest;                  /* words */
};

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
    gram_table_put(&b->keys, phrase, 0);
    gram_table_put(&b->keys, first_word_key(first), 0);
    if (words > b->longest) b->longest = words;
    return OK;
}

/* Each line is normalized as documents are (NormalizedQuery). A line gives two keys. */
static Status lines_read(BadWords *b, NormalizedQuery *query, const FileMap *map)
{
    const char *at = (const char *)map->data, *stop = at + map->size;
    int64_t     lines = 1;
    for (const char *end = at; end < stop; end++) lines += *end == '\n';
    TRY(gram_table_clear(&b->keys, 2 * lines));
    for (int64_t number = 1; at < stop; number++) {
        const char *end = memchr(at, '\n', (size_t)(stop - at));
        if (!end) end = stop;
        TRY(normalized_query_take(query, at, end - at));
        TRY(phrase_put(b, query->text.text, query->text.bytes, map->path, number));
        at = end + 1;
    }
    if (b->longest) return OK;
    return fail(BAD_FILE, "%s: has no words, give a file with one word or phrase a line", map->path);
}

Status bad_words_open(BadWords **words, const char *path)
{
    FileMap         map;
    NormalizedQuery query;
    *words = NULL;
    TRY(file_map(&map, path));
    BadWords *b = calloc(1, sizeof *b);
    Status status = normalized_query_open(&query);
    if (status == OK)
        status = b ? lines_read(b, &query, &map) : fail(NO_MEMORY, "%s: no memory for its words", path);
    normalized_query_close(&query);
    file_unmap(&map);
    if (status == OK) *words = b;
    else              bad_words_close(b);
    return status;
}

void bad_words_close(BadWords *b)
{
    if (!b) return;
    free(b->keys.slot);
    free(b);
}

/* How many phrases begin with `word`, whose end is `at`. */
static int64_t phrases_at(const BadWords *b, const char *text, int64_t bytes, int64_t at, uint64_t word)
{
    uint64_t phrase = phrase_add(0, word);
    int64_t  count  = gram_table_find(&b->keys, phrase) != NULL;
    for (int words = 1; words < b->longest && (word = next_word(text, bytes, &at)); words++) {
        phrase = phrase_add(phrase, word);
        count += gram_table_find(&b->keys, phrase) != NULL;
    }
    return count;
}

/* Linear for texts without bad words; at most PHRASE_MOST words are read again after the first word of a
 * phrase. */
int64_t bad_words_count(const BadWords *b, const char *text, int64_t bytes)
{
    int64_t count = 0, at = 0;
    for (uint64_t word; (word = next_word(text, bytes, &at)); )
        if (gram_table_find(&b->keys, first_word_key(word))) count += phrases_at(b, text, bytes, at, word);
    return count;
}
