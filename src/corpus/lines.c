#include "corpus/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct Lines {
    Stream *stream;
    char   *name;
    bool    json, known;                /* standard input is known by its first line */
    char   *carry;                      /* the beginning of a line whose end has not come yet */
    size_t  carried, room;
    int64_t line_most, line, skipped;   /* line: number of the next; skipped: bytes of the one being passed over */
    bool    skipping, ended;
};

/* ---- opening ---- */

static bool ends(const char *path, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length > n && !memcmp(path + length - n, ending, n);
}

static Status kind_find(bool *json, const char *path)
{
    const Packing *packing = packing_by_ending(path);
    size_t length = strlen(path) - (packing ? strlen(packing->ending) : 0);
    *json = ends(path, length, ".jsonl") || ends(path, length, ".json");
    if (*json || ends(path, length, ".txt") || !strcmp(path, "-")) return OK;
    if (ends(path, length, ".xz"))
        return fail(BAD_FILE, "%s: .xz is not read here; decompress first: xz -dc %s | jotun ... --input -", path, path);
    return fail(BAD_FILE, "%s: ends neither in .txt (a document a line) nor in .jsonl (a JSON object a line), each also"
                " with .gz, .zst or .bz2 behind; rename it or give it through --input -", path);
}

Status lines_name_check(const char *path)
{
    bool json;
    return kind_find(&json, path);
}

Status lines_open(Lines **lines, const char *path, int64_t line_most, int64_t ratio_most)
{
    bool json, standard = !strcmp(path, "-");
    *lines = NULL;
    TRY(kind_find(&json, path));
    Lines *l = calloc(1, sizeof *l);
    if (!l) return fail(NO_MEMORY, "%s: no memory to read it", path);
    *l = (Lines){ .name = strdup(standard ? "standard input" : path), .json = json, .known = !standard,
                  .line_most = line_most, .line = 1 };
    Status status = l->name ? stream_open(&l->stream, path, ratio_most) : fail(NO_MEMORY, "%s: no memory to read it", path);
    if (status == OK) *lines = l;
    else              lines_close(l);
    return status;
}

void lines_close(Lines *l)
{
    if (!l) return;
    stream_close(l->stream);
    free(l->name);
    free(l->carry);
    free(l);
}

const char *lines_name(const Lines *l) { return l->name; }

/* ---- filling ---- */

static Status room_make(const Lines *l, char **text, size_t *room, size_t wanted)
{
    if (wanted <= *room) return OK;
    char *grown = realloc(*text, wanted);
    if (!grown) return fail(NO_MEMORY, "%s:%" PRId64 ": no memory for %zu bytes of text", l->name, l->line, wanted);
    *text = grown;
    *room = wanted;
    return OK;
}

/* Reads until the block is full or the text ends */
static Status block_read(Lines *l, Block *b)
{
    size_t got = 0, wanted = b->room - b->bytes;
    Status status = stream_read(l->stream, b->text + b->bytes, wanted, &got);
    b->bytes += got;
    l->ended  = got < wanted;               /* or broken, which the next read says */
    return status;
}

static size_t behind_last_end(const Block *b)
{
    const char *end = b->bytes ? memrchr(b->text, '\n', b->bytes) : NULL;
    return end ? (size_t)(end - b->text) + 1 : 0;
}

static Status carry_take(Lines *l, Block *b)
{
    size_t usual = l->carried < BLOCK_USUAL ? BLOCK_USUAL : 2 * l->carried;
    TRY(room_make(l, &b->text, &b->room, usual));
    if (l->carried) memcpy(b->text, l->carry, l->carried);
    b->bytes   = l->carried;
    l->carried = 0;
    return OK;
}

/* What stands behind the last whole line waits for the next block. */
static Status carry_leave(Lines *l, Block *b, size_t whole)
{
    size_t rest = b->bytes - whole;
    TRY(room_make(l, &l->carry, &l->room, rest));
    if (rest) memcpy(l->carry, b->text + whole, rest);
    l->carried = rest;
    b->bytes   = whole;
    return OK;
}

static int64_t ends_count(const Block *b)
{
    int64_t count = 0;
    const char *at = b->text, *stop = at + b->bytes;
    while (at < stop && (at = memchr(at, '\n', (size_t)(stop - at)))) count++, at++;
    return count;
}

static bool text_is_json(const Block *b)
{
    size_t at = 0;
    while (at < b->bytes && memchr(" \t\r\n", b->text[at], 4)) at++;
    return at < b->bytes && b->text[at] == '{';
}

/* The block holds a piece of a line that is too long: forget it, up to the end of the line. True when that was met. */
static bool skip_on(Lines *l, Block *b)
{
    const char *end = memchr(b->text, '\n', b->bytes);
    size_t piece = end ? (size_t)(end - b->text) : b->bytes;
    l->skipped += (int64_t)piece;
    if (!end) {
        b->bytes = 0;
        return l->ended;
    }
    b->bytes -= piece + 1;
    memmove(b->text, end + 1, b->bytes);
    return true;
}

static Status skip_line(Lines *l, Block *b)
{
    l->skipped = 0;
    while (!skip_on(l, b)) TRY(block_read(l, b));
    TRY(carry_leave(l, b, 0));
    b->skipped = l->skipped;
    b->line    = l->line++;
    return OK;
}

static Status block_fill(Lines *l, Block *b)
{
    size_t whole = 0;
    TRY(carry_take(l, b));
    for (;;) {
        if (!l->ended) TRY(block_read(l, b));
        whole = l->ended ? b->bytes : behind_last_end(b);
        if (whole || l->ended) break;
        if ((int64_t)b->bytes > l->line_most) return skip_line(l, b);
        size_t most = (size_t)l->line_most + 1;                 /* enough to see that it is too long */
        TRY(room_make(l, &b->text, &b->room, 2 * b->room < most ? 2 * b->room : most));
    }
    return carry_leave(l, b, whole);
}

/* Ended by damage, not by the end of the text: then the last line is not whole */
static Status damage_look(Lines *l, Block *b)
{
    size_t none;
    char   byte;
    if (!l->ended || stream_read(l->stream, &byte, 1, &none) == OK) return OK;
    b->bytes = behind_last_end(b);
    return b->bytes ? OK : fail(BAD_FILE, "%s", fail_text());
}

Status lines_fill(Lines *l, Block *b, bool *more)
{
    b->bytes = 0;
    b->skipped = 0;
    *more = false;
    Status status = block_fill(l, b);
    if (status == OK && !b->skipped) status = damage_look(l, b);
    b->behind = stream_behind(l->stream);
    if (status != OK) {
        b->bytes = 0;
        return status;
    }
    *more = b->bytes || b->skipped;
    if (!*more || b->skipped) return OK;
    if (!l->known) l->json = text_is_json(b);
    l->known = true;
    b->json  = l->json;
    b->line  = l->line;
    l->line += ends_count(b);
    return OK;
}

/* ---- lines of a block ---- */

static bool line_blank(const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t') return false;
    return true;
}

bool block_next(const Block *b, LineWalk *walk, Line *line)
{
    while (walk->at < b->bytes) {
        char   *text = b->text + walk->at;
        size_t  left = b->bytes - walk->at;
        const char *end = memchr(text, '\n', left);
        size_t bytes = end ? (size_t)(end - text) : left;
        walk->at += bytes + (end != NULL);
        *line = (Line){ text, (int64_t)bytes, b->line + walk->lines++ };
        if (end && bytes && text[bytes - 1] == '\r') line->bytes--;
        if (!line_blank(text, line->bytes)) return true;
    }
    return false;
}

void block_free(Block *b)
{
    free(b->text);
    *b = (Block){ 0 };
}
