#include "corpus/read/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct Lines {
    Stream   *stream;
    char     *name;
    BlockKind kind;                     /* LINES and AUTO until the first bytes are here */
    bool      plain, standard;          /* its ending says that it is text; standard input */
    char     *carry;                    /* the beginning of a document whose end has not come yet */
    size_t    carried, room;
    size_t    wanted;                   /* bytes of the block being filled: by the text, not by what memory is there */
    int64_t   most, line, skipped;      /* line: number of the next; skipped: bytes of the document being passed over */
    int       matched;                  /* while it is: see end_step */
    bool      begun, ended;
};

static const char doc_end[] = "</doc>", page_end[] = "</page>";

/* ---- opening ---- */

static bool ends(const char *path, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length > n && !memcmp(path + length - n, ending, n);
}

static Status name_unknown(const char *path, BlockKind wanted)
{
    return fail(BAD_FILE, "%s: ends neither in .txt (a document a line) nor in .jsonl (a JSON object a line)%s, each also"
                " with .gz, .zst or .bz2 behind; rename it or %s", path, wanted == BLOCK_AUTO ? " nor in .xml (MediaWiki)" : "",
                wanted == BLOCK_AUTO ? "say by --input-format what it is" : "give it through --input -");
}

/* A name without an ending is taken by its first bytes: wiki_00. */
static bool name_bare(const char *path, size_t length)
{
    const char *slash = memrchr(path, '/', length), *name = slash ? slash + 1 : path;
    return !memchr(name, '.', length - (size_t)(name - path));
}

static Status kind_find(BlockKind *kind, bool *plain, const char *path, BlockKind wanted)
{
    const Packing *packing = packing_by_ending(path);
    size_t length = strlen(path) - (packing ? strlen(packing->ending) : 0);
    *kind  = wanted;
    *plain = ends(path, length, ".txt");
    if (ends(path, length, ".xz"))
        return fail(BAD_FILE, "%s: .xz is not read here; decompress first: xz -dc %s | jotun ... --input -", path, path);
    if (ends(path, length, ".parquet"))
        return fail(BAD_FILE, "%s: .parquet is not read here; write it as JSON lines first", path);
    if (wanted > BLOCK_AUTO || !strcmp(path, "-")) return OK;
    bool json = ends(path, length, ".jsonl") || ends(path, length, ".json");
    if (json) *kind = BLOCK_JSON;
    else if (*plain && wanted == BLOCK_LINES) *kind = BLOCK_TEXT;
    if (json || *plain) return OK;
    if (wanted == BLOCK_AUTO && ends(path, length, ".xml")) {
        *kind = BLOCK_PAGES;
        return OK;
    }
    return wanted == BLOCK_AUTO && name_bare(path, length) ? OK : name_unknown(path, wanted);
}

Status lines_name_check(const char *path, BlockKind wanted)
{
    BlockKind kind;
    bool plain;
    return kind_find(&kind, &plain, path, wanted);
}

Status lines_open(Lines **lines, const char *path, BlockKind wanted, int64_t most, int64_t ratio_most)
{
    BlockKind kind;
    bool plain, standard = !strcmp(path, "-");
    *lines = NULL;
    TRY(kind_find(&kind, &plain, path, wanted));
    Lines *l = calloc(1, sizeof *l);
    if (!l) return fail(NO_MEMORY, "%s: no memory to read it", path);
    *l = (Lines){ .name = strdup(standard ? "standard input" : path), .kind = kind, .plain = plain,
                  .standard = standard, .most = most, .line = 1 };
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

Status lines_ahead(Lines *l, int threads) { return stream_ahead(l->stream, threads); }

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
    size_t got = 0, wanted = l->wanted - b->bytes;
    Status status = stream_read(l->stream, b->text + b->bytes, wanted, &got);
    b->bytes += got;
    l->ended  = got < wanted;               /* or broken, which the next read says */
    return status;
}

/* ---- where documents end ---- */

static bool line_blank(const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

/* Does a document end with this line? Of the kinds whose documents are lines with an end of their own */
static bool line_ends_document(BlockKind kind, const char *text, size_t bytes)
{
    if (kind == BLOCK_PARAGRAPHS) return line_blank(text, (int64_t)bytes);
    return bytes >= sizeof doc_end - 1 && !memcmp(text, doc_end, sizeof doc_end - 1);
}

static size_t behind_last_page(const Block *b)
{
    const size_t length = sizeof page_end - 1;
    for (size_t left = b->bytes; left >= length; ) {
        const char *at = memrchr(b->text, '<', left - length + 1);
        if (!at) return 0;
        if (!memcmp(at, page_end, length)) return (size_t)(at - b->text) + length;
        left = (size_t)(at - b->text) + length - 1;
    }
    return 0;
}

static size_t behind_last_line_of_end(BlockKind kind, const Block *b)
{
    const char *end = b->bytes ? memrchr(b->text, '\n', b->bytes) : NULL;
    while (end) {
        const char *before = memrchr(b->text, '\n', (size_t)(end - b->text)), *line = before ? before + 1 : b->text;
        if (line_ends_document(kind, line, (size_t)(end - line))) return (size_t)(end - b->text) + 1;
        end = before;
    }
    return 0;
}

static size_t behind_last_end(const Lines *l, const Block *b)
{
    if (l->kind == BLOCK_PAGES) return behind_last_page(b);
    if (l->kind >= BLOCK_PARAGRAPHS) return behind_last_line_of_end(l->kind, b);
    const char *end = b->bytes ? memrchr(b->text, '\n', b->bytes) : NULL;
    return end ? (size_t)(end - b->text) + 1 : 0;
}

/* The next byte of a document that nobody holds: is it its last? matched: how much of the end stands behind us, of
 * paragraphs 1 once the line is not blank, of docs -1 once the line is another. */
static bool end_step(Lines *l, char c)
{
    int before = l->matched;
    if (l->kind == BLOCK_PAGES) {
        l->matched = c == page_end[before] ? before + 1 : c == '<';
        return !page_end[l->matched];
    }
    if (l->kind <= BLOCK_JSON) return c == '\n';
    l->matched = 0;
    if (l->kind == BLOCK_PARAGRAPHS) {
        if (c != '\n') l->matched = before || !line_blank(&c, 1);
        return c == '\n' && !before;
    }
    const int length = (int)sizeof doc_end - 1;
    if (c != '\n') l->matched = before == length ? length : before >= 0 && c == doc_end[before] ? before + 1 : -1;
    return c == '\n' && before == length;
}

static const char *skipped_end(Lines *l, const Block *b)
{
    for (size_t i = 0; i < b->bytes; i++)
        if (end_step(l, b->text[i])) return b->text + i;
    return NULL;
}

/* ---- what the first bytes say ---- */

static bool begins(const char *text, size_t bytes, const char *with)
{
    size_t length = strlen(with);
    return bytes >= length && !memcmp(text, with, length);
}

static Status kind_look(Lines *l, const Block *b)
{
    size_t at = 0;
    while (at < b->bytes && memchr(" \t\r\n", b->text[at], 4)) at++;
    const char *text = b->text + at;
    size_t left = b->bytes - at;
    bool   any  = l->kind == BLOCK_AUTO;
    if (any && begins(text, left, "<doc "))                   l->kind = BLOCK_DOCS;
    else if (any && (begins(text, left, "<mediawiki") || begins(text, left, "<?xml"))) l->kind = BLOCK_PAGES;
    else if (!l->plain && begins(text, left, "{"))            l->kind = BLOCK_JSON;
    else if (l->plain || l->standard || !left)                l->kind = BLOCK_TEXT;
    else return fail(BAD_FILE, "%s: begins neither with {, <doc nor <mediawiki; say by --input-format what it is", l->name);
    return OK;
}

/* A mark of the order of bytes, which UTF-8 does not need, goes. */
static Status begin(Lines *l, Block *b)
{
    bool marked = begins(b->text, b->bytes, "\xEF\xBB\xBF");
    if (l->begun) return OK;
    l->begun = true;
    if (marked) memmove(b->text, b->text + 3, b->bytes -= 3);
    return l->kind <= BLOCK_AUTO ? kind_look(l, b) : OK;
}

/* ---- blocks ---- */

static Status carry_take(Lines *l, Block *b)
{
    l->wanted = l->carried < BLOCK_USUAL ? BLOCK_USUAL : 2 * l->carried;
    TRY(room_make(l, &b->text, &b->room, l->wanted));
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

static int64_t ends_count(const char *text, size_t bytes)
{
    int64_t count = 0;
    const char *at = text, *stop = at + bytes;
    while (at < stop && (at = memchr(at, '\n', (size_t)(stop - at)))) count++, at++;
    return count;
}

/* The block holds a piece of a document that is too long: forget it, up to its end. True when that was met. */
static bool skip_on(Lines *l, Block *b)
{
    const char *end = skipped_end(l, b);
    size_t piece = end ? (size_t)(end - b->text) : b->bytes, gone = piece + (end != NULL);
    l->skipped += (int64_t)piece;
    l->line    += ends_count(b->text, gone);
    b->bytes   -= gone;
    if (end) memmove(b->text, end + 1, b->bytes);
    return end || l->ended;
}

static Status skip_document(Lines *l, Block *b)
{
    b->line    = l->line;
    l->skipped = 0;
    l->matched = 0;
    while (!skip_on(l, b)) TRY(block_read(l, b));
    TRY(carry_leave(l, b, 0));
    b->skipped = l->skipped;
    return OK;
}

static Status block_fill(Lines *l, Block *b)
{
    size_t whole = 0;
    TRY(carry_take(l, b));
    for (;;) {
        if (!l->ended) TRY(block_read(l, b));
        TRY(begin(l, b));
        whole = l->ended ? b->bytes : behind_last_end(l, b);
        if (whole || l->ended) break;
        if ((int64_t)b->bytes > l->most) return skip_document(l, b);
        size_t most = (size_t)l->most + 1;                      /* enough to see that it is too long */
        l->wanted = 2 * l->wanted < most ? 2 * l->wanted : most;
        TRY(room_make(l, &b->text, &b->room, l->wanted));
    }
    return carry_leave(l, b, whole);
}

/* Ended by damage, not by the end of the text: then the last line is not whole */
static Status damage_look(Lines *l, Block *b)
{
    size_t none;
    char   byte;
    if (!l->ended || stream_read(l->stream, &byte, 1, &none) == OK) return OK;
    b->bytes = behind_last_end(l, b);
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
    b->kind  = l->kind;
    b->line  = l->line;
    l->line += ends_count(b->text, b->bytes);
    return OK;
}

/* ---- documents of a block ---- */

/* Where the document at text ends, behind its last byte; *stop: where the next may begin */
static const char *document_end(BlockKind kind, const char *text, const char *stop, const char **next)
{
    if (kind == BLOCK_PAGES) {
        const char *end = memmem(text, (size_t)(stop - text), page_end, sizeof page_end - 1);
        return *next = end ? end + sizeof page_end - 1 : stop;
    }
    for (const char *line = text, *end; line < stop; line = *next) {
        end   = memchr(line, '\n', (size_t)(stop - line));
        *next = end ? end + 1 : stop;
        if (!end) end = stop;
        if (kind <= BLOCK_JSON) return end;
        if (!line_ends_document(kind, line, (size_t)(end - line))) continue;
        if (kind == BLOCK_DOCS) return end;
        return line > text ? line - 1 : line;
    }
    return stop;
}

bool block_next(const Block *b, LineWalk *walk, Line *line)
{
    while (walk->at < b->bytes) {
        char *text = b->text + walk->at;
        const char *next = text, *end = document_end(b->kind, text, b->text + b->bytes, &next);
        *line = (Line){ text, end - text, b->line + walk->lines };
        walk->at    += (size_t)(next - text);
        walk->lines += b->kind <= BLOCK_JSON ? 1 : ends_count(text, (size_t)(next - text));
        if (b->kind <= BLOCK_JSON && next > end && end > text && end[-1] == '\r') line->bytes--;
        if (!line_blank(text, line->bytes)) return true;
    }
    return false;
}

void block_free(Block *b)
{
    free(b->text);
    *b = (Block){ 0 };
}
