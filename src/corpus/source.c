#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "corpus/source.h"

enum { CHUNK = 1 << 20 };

struct Source {
    FILE   *file;
    char   *path, *key;                 /* path: as messages say it */
    bool    json, known;                /* standard input is known by its first line */
    char   *chunk;                      /* what was read and not yet given */
    size_t  at, end;
    char   *line;
    size_t  bytes, room;
    int64_t number, read;               /* of the line; bytes behind us */
    json_t *object;                     /* holds the document of a JSON line */
};

/* ---- opening ---- */

static bool ends(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

static Status kind_find(bool *json, const char *path)
{
    static const struct { const char *ending, *cure; } packed[] = {
        { ".gz", "gzip -dc" }, { ".zst", "zstd -dc" }, { ".bz2", "bzip2 -dc" }, { ".xz", "xz -dc" },
    };
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (ends(path, packed[i].ending))
            return fail(BAD_FILE, "%s: reading %s is not built yet; decompress first: %s %s | jotun prepare --input -"
                        " ...", path, packed[i].ending, packed[i].cure, path);
    *json = ends(path, ".jsonl") || ends(path, ".json");
    if (*json || ends(path, ".txt") || strcmp(path, "-") == 0) return OK;
    return fail(BAD_FILE, "%s: ends neither in .txt (a document a line) nor in .jsonl (a JSON object a line);"
                " rename it or give it through --input -", path);
}

Status source_open(Source **source, const char *path, const char *key)
{
    bool json, standard = strcmp(path, "-") == 0;
    *source = NULL;
    TRY(kind_find(&json, path));
    Source *s = calloc(1, sizeof *s);
    if (!s) return fail(NO_MEMORY, "%s: no memory to read it", path);
    *s = (Source){ .path = strdup(standard ? "standard input" : path), .key = strdup(key), .json = json,
                   .known = !standard, .chunk = malloc(CHUNK), .line = malloc(CHUNK), .room = CHUNK };
    s->file = standard ? stdin : fopen(path, "rb");
    Status status = OK;
    if (!s->path || !s->key || !s->chunk || !s->line) status = fail(NO_MEMORY, "%s: no memory to read it", path);
    else if (!s->file) status = fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (status == OK) *source = s;
    else              source_close(s);
    return status;
}

void source_close(Source *s)
{
    if (!s) return;
    if (s->file && s->file != stdin) fclose(s->file);
    json_decref(s->object);
    free(s->path);
    free(s->key);
    free(s->chunk);
    free(s->line);
    free(s);
}

int64_t source_read(const Source *s) { return s->read; }

int64_t source_size(const char *path)
{
    struct stat about;
    bool known = strcmp(path, "-") != 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode);
    return known ? (int64_t)about.st_size : -1;
}

/* ---- lines ---- */

static Status chunk_fill(Source *s)
{
    s->at  = 0;
    s->end = fread(s->chunk, 1, CHUNK, s->file);
    if (ferror(s->file)) return fail(BAD_FILE, "%s: cannot be read after byte %" PRId64 ": %m", s->path, s->read);
    return OK;
}

static Status line_add(Source *s, const char *text, size_t bytes)
{
    if (s->bytes + bytes > SOURCE_LINE_MOST)
        return fail(BAD_FILE, "%s:%" PRId64 ": a line of more than %d bytes; is it text with a document a line?",
                    s->path, s->number, SOURCE_LINE_MOST);
    if (s->bytes + bytes > s->room) {
        char *grown = realloc(s->line, 2 * (s->bytes + bytes));
        if (!grown) return fail(NO_MEMORY, "%s:%" PRId64 ": no memory for the line", s->path, s->number);
        s->line = grown;
        s->room = 2 * (s->bytes + bytes);
    }
    memcpy(s->line + s->bytes, text, bytes);
    s->bytes += bytes;
    return OK;
}

/* The next line without its end, "\n" or "\r\n"; the last one may lack it. */
static Status line_next(Source *s, bool *more)
{
    bool whole = false;
    s->bytes = 0;
    s->number++;
    *more = false;
    while (!whole) {
        if (s->at == s->end) TRY(chunk_fill(s));
        if (s->at == s->end) break;
        const char *from = s->chunk + s->at, *stop = memchr(from, '\n', s->end - s->at);
        size_t bytes = stop ? (size_t)(stop - from) : s->end - s->at;
        TRY(line_add(s, from, bytes));
        whole    = stop != NULL;
        *more    = true;
        s->at   += bytes + whole;
        s->read += (int64_t)(bytes + whole);
    }
    if (whole && s->bytes && s->line[s->bytes - 1] == '\r') s->bytes--;
    return OK;
}

static bool line_blank(const Source *s)
{
    for (size_t i = 0; i < s->bytes; i++)
        if (s->line[i] != ' ' && s->line[i] != '\t') return false;
    return true;
}

/* ---- documents ---- */

static Status key_missing(const Source *s)
{
    char keys[160] = "";
    const char *key;
    json_t *value;
    json_object_foreach(s->object, key, value) {
        size_t used = strlen(keys);
        snprintf(keys + used, sizeof keys - used, "%s\"%.40s\"", used ? ", " : "", key);
    }
    return fail(BAD_FILE, "%s:%" PRId64 ": no key \"%s\"; the line has %s: name one by --json-keys", s->path,
                s->number, s->key, *keys ? keys : "none");
}

static Status json_document(Source *s, Document *document)
{
    json_error_t error;
    json_decref(s->object);
    s->object = json_loadb(s->line, s->bytes, JSON_ALLOW_NUL, &error);
    if (!s->object)
        return fail(BAD_FILE, "%s:%" PRId64 ": not JSON at byte %d of the line: %s", s->path, s->number,
                    error.position, error.text);
    if (!json_is_object(s->object))
        return fail(BAD_FILE, "%s:%" PRId64 ": not a JSON object; each line is one, as {\"text\": \"...\"}", s->path,
                    s->number);
    const json_t *text = json_object_get(s->object, s->key);
    if (!text) return key_missing(s);
    if (!json_is_string(text))
        return fail(BAD_FILE, "%s:%" PRId64 ": what stands under \"%s\" is no text in quotes", s->path, s->number, s->key);
    *document = (Document){ json_string_value(text), (int64_t)json_string_length(text) };
    return OK;
}

Status source_next(Source *s, Document *document, bool *more)
{
    do TRY(line_next(s, more)); while (*more && line_blank(s));
    if (!*more) return OK;
    if (!s->known) s->json = s->line[0] == '{';
    s->known = true;
    if (s->json) return json_document(s, document);
    *document = (Document){ s->line, (int64_t)s->bytes };
    return OK;
}
