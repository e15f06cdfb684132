/* fairseq's dictionaries. Words are found by a hash table with linear probing, which is at most half full. */
#include "text/dictionary.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "text/tokenizer.h"

enum { FIRST_SLOTS = 1 << 12 };

/* text: owned */
typedef struct { char *text; int64_t bytes, count; } Word;

struct Dictionary {
    Word    *word;                       /* [words] by id; room for `capacity` */
    int32_t  words, capacity;
    int32_t *slot;                       /* [slots] id + 1; 0: free */
    int64_t  slots;                      /* a power of two */
};

static int64_t slot_of(const Dictionary *d, TextSpan word)
{
    int64_t at = (int64_t)(tokenizer_hash(0, word.text, word.bytes) & (uint64_t)(d->slots - 1));
    for (; d->slot[at]; at = (at + 1) & (d->slots - 1)) {
        const Word *w = &d->word[d->slot[at] - 1];
        if (w->bytes == word.bytes && !memcmp(w->text, word.text, (size_t)word.bytes)) break;
    }
    return at;
}

static void slots_fill(Dictionary *d)
{
    memset(d->slot, 0, (size_t)d->slots * sizeof *d->slot);
    for (int32_t id = 0; id < d->words; id++)
        d->slot[slot_of(d, (TextSpan){ d->word[id].text, d->word[id].bytes })] = id + 1;
}

static Status no_memory(const Dictionary *d) { return fail(NO_MEMORY, "no memory for %d words", d->words); }

static Status grow(Dictionary *d)
{
    if (d->words == INT32_MAX) return fail(BAD_FILE, "a dictionary has at most 2^31 - 1 words");
    TRY(ARRAY_RESERVE(d->word, d->capacity, d->words + 1));
    if (2 * (int64_t)d->words < d->slots) return OK;
    int64_t  slots = d->slots ? 2 * d->slots : FIRST_SLOTS;
    int32_t *slot  = malloc((size_t)slots * sizeof *slot);
    if (!slot) return no_memory(d);
    free(d->slot);
    d->slot = slot, d->slots = slots;
    slots_fill(d);
    return OK;
}

/* A word gets the next id; one that is there gives its place in the table to the new one. */
static Status append(Dictionary *d, TextSpan word, int64_t count)
{
    TRY(grow(d));
    char *text = malloc((size_t)word.bytes + 1);
    if (!text) return no_memory(d);
    memcpy(text, word.text, (size_t)word.bytes);
    d->slot[slot_of(d, word)] = d->words + 1;
    d->word[d->words++] = (Word){ text, word.bytes, count };
    return OK;
}

Status dictionary_new(Dictionary **dictionary)
{
    static const char *const special[DICTIONARY_SPECIALS] = { "<s>", "<pad>", "</s>", "<unk>" };
    Dictionary *d = *dictionary = calloc(1, sizeof *d);
    if (!d) return fail(NO_MEMORY, "no memory for a dictionary");
    Status status = OK;
    for (int i = 0; i < DICTIONARY_SPECIALS && status == OK; i++)
        status = append(d, (TextSpan){ special[i], (int64_t)strlen(special[i]) }, 1);
    if (status != OK) dictionary_close(d), *dictionary = NULL;
    return status;
}

void dictionary_close(Dictionary *d)
{
    if (!d) return;
    for (int32_t id = 0; id < d->words; id++) free(d->word[id].text);
    free(d->word);
    free(d->slot);
    free(d);
}

int32_t dictionary_size(const Dictionary *d) { return d->words; }

static int32_t id_of(const Dictionary *d, TextSpan word) { return d->slot[slot_of(d, word)] - 1; }

int32_t dictionary_find(const Dictionary *d, TextSpan word)
{
    int32_t id = id_of(d, word);
    return id < 0 ? DICTIONARY_UNKNOWN : id;
}

Status dictionary_count(Dictionary *d, TextSpan word, int64_t times)
{
    int32_t id = id_of(d, word);
    if (id < 0) return append(d, word, times);
    d->word[id].count += times;
    return OK;
}

/* ---- the file ---- */

/* Cuts the part behind the last blank off; false: there is none. */
static bool cut_last(TextSpan *line, TextSpan *last)
{
    int64_t at = line->bytes;
    while (at > 0 && line->text[at - 1] != ' ') at--;
    if (at == 0) return false;
    *last = (TextSpan){ line->text + at, line->bytes - at };
    line->bytes = at - 1;
    return true;
}

static bool number_of(int64_t *number, TextSpan text)
{
    char digits[24], *end;
    if (text.bytes == 0 || text.bytes >= (int64_t)sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)text.bytes, text.text);
    errno   = 0;
    *number = strtoll(digits, &end, 10);
    return !*end && !errno;
}

/* Blanks before the word belong to it, as in fairseq. */
static Status line_read(Dictionary *d, const char *path, int64_t number, const char *flag, TextSpan line)
{
    TextSpan stripped = text_strip(line), field;
    int64_t  count;
    line.bytes = stripped.text + stripped.bytes - line.text;
    bool right = cut_last(&line, &field);
    bool overwrite = right && field.bytes == (int64_t)strlen(flag) && !memcmp(field.text, flag, strlen(flag));
    if (overwrite) right = cut_last(&line, &field);
    if (!right || !number_of(&count, field))
        return fail(BAD_FILE,
                    "%s:%" PRId64 ": not a word and its count with a blank between; give a dictionary "
                    "(dict.txt)",
                    path, number);
    if (!overwrite && id_of(d, line) >= 0)
        return fail(BAD_FILE,
                    "%s:%" PRId64
                    ": the word \"%.*s\" is there for the second time; write %s "
                    "behind its count where it shall replace the first one",
                    path, number, line.bytes < 60 ? (int)line.bytes : 60, line.text, flag);
    return append(d, line, count);
}

Status dictionary_open(Dictionary **dictionary, const char *path, const char *replaces)
{
    FileMap map;
    TRY(file_map(&map, path));
    TextSpan rest = { (const char *)map.data, (int64_t)map.size }, line;
    Status status = dictionary_new(dictionary);
    for (int64_t number = 1; status == OK && text_line_next(&rest, &line); number++)
        status = line_read(*dictionary, path, number, replaces, line);
    file_unmap(&map);
    if (status != OK && *dictionary) dictionary_close(*dictionary), *dictionary = NULL;
    return status;
}

Status dictionary_write(const Dictionary *d, const char *path)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *out = open_memstream(&text, &bytes);
    for (int32_t id = DICTIONARY_SPECIALS; out && id < d->words; id++) {
        fwrite(d->word[id].text, 1, (size_t)d->word[id].bytes, out);
        fprintf(out, " %" PRId64 "\n", d->word[id].count);
    }
    bool   whole  = out && fclose(out) == 0;
    Status status = whole ? file_write_whole(path, text, bytes) : no_memory(d);
    free(text);
    return status;
}

/* ---- order ---- */

/* Of UTF-8 the order of bytes is that of code points. */
static int by_count(const void *a, const void *b)
{
    const Word *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    int64_t least = x->bytes < y->bytes ? x->bytes : y->bytes;
    int     order = memcmp(x->text, y->text, (size_t)least);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

Status dictionary_order(Dictionary *d, int64_t least, int64_t words, int64_t multiple)
{
    char made[32];
    qsort(d->word + DICTIONARY_SPECIALS, (size_t)(d->words - DICTIONARY_SPECIALS), sizeof *d->word, by_count);
    int32_t keep = DICTIONARY_SPECIALS;
    while (keep < d->words && (words <= 0 || keep < words) && d->word[keep].count >= least) keep++;
    while (d->words > keep) free(d->word[--d->words].text);
    slots_fill(d);
    for (int i = 0; d->words % multiple; i++) {
        snprintf(made, sizeof made, "madeupword%04d", i);
        TRY(dictionary_count(d, (TextSpan){ made, (int64_t)strlen(made) }, 0));
    }
    return OK;
}
