/* Cuts a file into blocks of whole documents. A block is read, and what follows the last complete document
 * in it is carried over to the next block. A document longer than the block makes the block grow, up to
 * the limit; beyond it the document is skipped by a small state machine that holds nothing of it. */
#include "corpus/read/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"
#include "base/words.h"

/* An open file. */
typedef struct Lines {
    Stream    *stream;
    const char *name;                /* for messages; the caller's path */
    BlockKind  kind;                 /* LINES or AUTO until the first bytes are read */
    bool       standard;             /* it is standard input */
    char      *carry;                /* owned: the beginning of a document whose end has not been read */
    size_t     carried, capacity;    /* of carry: bytes in use; capacity */
    /* bytes of the block being filled. It follows from the text alone and not from the capacity that the
     * block happens to have, so that blocks have the same borders in every run. */
    size_t     wanted;
    int64_t    most, line, skipped;  /* limit; number of the next line; bytes of the document being skipped */
    int        matched;              /* state of end_step while a document is skipped */
    bool       begun, ended;         /* the first block was examined; the file has no more bytes */
} Lines;

static const char doc_end[] = "</doc>", page_end[] = "</page>";

/* ---- opening ---- */

static void lines_close(Lines *l)
{
    if (!l) return;
    stream_close(l->stream);
    free(l->carry);
    free(l);
}

/* *lines is NULL after a failure. */
static Status lines_open(Lines **lines, const InputBlocks *input, int file)
{
    const char *path = input->path[file];
    BlockKind kind = input->kind ? input->kind[file] : input->wanted;
    bool standard = !strcmp(path, "-");
    *lines = NULL;
    if (!input->kind) TRY(format_by_name(&kind, path, input->wanted));
    Lines *l = calloc(1, sizeof *l);
    if (!l) return fail(NO_MEMORY, "%s: no memory to read it", path);
    *l = (Lines){ .name = standard ? "standard input" : path, .kind = kind,
                  .standard = standard, .most = input->line_most, .line = 1 };
    Status status = stream_open(&l->stream, path, input->ratio_most);
    if (status == OK) status = stream_texts(l->stream, input->texts);
    if (status == OK) *lines = l;
    else              lines_close(l);
    return status;
}

/* ---- filling ---- */

static Status reserve(const Lines *l, char **text, size_t *capacity, size_t wanted)
{
    Status status = ARRAY_RESERVE(*text, *capacity, wanted);
    return status == OK ? OK : fail_prefix(status, "%s:%" PRId64 ": ", l->name, l->line);
}

/* Reads until the block is full or the file ends. A read error counts as the end here: the next read
 * reports it, after the documents before it have been returned. */
static Status block_read(Lines *l, Block *b)
{
    size_t got = 0, wanted = l->wanted - b->bytes;
    Status status = stream_read(l->stream, b->text + b->bytes, wanted, &got);
    b->bytes += got;
    l->ended  = got < wanted;               /* or broken, which the next read reports */
    return status;
}

/* ---- where documents end ---- */

static bool line_blank(const char *text, int64_t bytes) { return has_only(text, bytes, " \t\r"); }

/* Does a document end with this line? Only for the formats whose documents end with a line of their own. */
static bool line_ends_document(BlockKind kind, const char *text, size_t bytes)
{
    if (kind == BLOCK_PARAGRAPHS) return line_blank(text, (int64_t)bytes);
    return has_beginning(text, (int64_t)bytes, doc_end);
}

/* Searches backwards for '<', which is rare in text, so the cost is that of the incomplete page at the
 * end. */
static size_t after_last_page(const Block *b)
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

static size_t after_last_line(const Block *b)
{
    const char *end = b->bytes ? memrchr(b->text, '\n', b->bytes) : NULL;
    return end ? (size_t)(end - b->text) + 1 : 0;
}

static size_t after_last_end_line(BlockKind kind, const Block *b)
{
    const char *end = b->bytes ? memrchr(b->text, '\n', b->bytes) : NULL;
    while (end) {
        const char *before = memrchr(b->text, '\n', (size_t)(end - b->text)),
                   *line   = before ? before + 1 : b->text;
        if (line_ends_document(kind, line, (size_t)(end - line))) return (size_t)(end - b->text) + 1;
        end = before;
    }
    return 0;
}

/* A file is one document unless it is long. The cut is followed by nothing of the paragraph before it. */
static size_t after_long_file(const Block *b)
{
    size_t whole = b->bytes < FILE_USUAL ? 0 : after_last_end_line(BLOCK_PARAGRAPHS, b);
    return whole || b->bytes < 2 * (size_t)FILE_USUAL ? whole : after_last_line(b);
}

/* Bytes of the block up to the end of the last complete document; 0: there is none. */
static size_t after_last_document(const Lines *l, const Block *b)
{
    if (l->kind == BLOCK_FILES) return after_long_file(b);
    if (l->kind == BLOCK_PAGES) return after_last_page(b);
    return l->kind >= BLOCK_PARAGRAPHS ? after_last_end_line(l->kind, b) : after_last_line(b);
}

/* Skipping a document: is c its last byte? This is a state machine over single bytes, since the end may be
 * split between two reads. l->matched is its state: for pages and docs how many bytes of the closing tag
 * have matched, for docs -1 once the line is another one, for paragraphs 1 once the line is not blank. */
static bool end_step(Lines *l, char c)
{
    int before = l->matched;
    if (l->kind == BLOCK_PAGES) {
        l->matched = c == page_end[before] ? before + 1 : c == '<';
        return !page_end[l->matched];
    }
    if (l->kind <= BLOCK_JSON || l->kind == BLOCK_FILES) return c == '\n';
    l->matched = 0;
    if (l->kind == BLOCK_PARAGRAPHS) {
        if (c != '\n') l->matched = before || !line_blank(&c, 1);
        return c == '\n' && !before;
    }
    const int length = (int)sizeof doc_end - 1;
    if (c != '\n')
        l->matched = before == length ? length : before >= 0 && c == doc_end[before] ? before + 1 : -1;
    return c == '\n' && before == length;
}

static const char *skipped_end(Lines *l, const Block *b)
{
    for (size_t i = 0; i < b->bytes; i++)
        if (end_step(l, b->text[i])) return b->text + i;
    return NULL;
}

/* ---- the first block ---- */

/* Drops a byte order mark, which UTF-8 does not need and JSON does not allow, and decides the format. */
static Status first_block_begin(Lines *l, Block *b)
{
    bool marked = has_beginning(b->text, (int64_t)b->bytes, "\xEF\xBB\xBF");
    if (l->begun) return OK;
    l->begun = true;
    if (marked) memmove(b->text, b->text + 3, b->bytes -= 3);
    if (l->kind > BLOCK_AUTO) return OK;
    FileFormat format;
    TRY(format_by_beginning(&format, l->standard ? "-" : l->name, l->kind, b->text, (int64_t)b->bytes));
    l->kind = format.kind;
    return OK;
}

/* ---- blocks ---- */

/* Twice what is carried: a long document is then copied O(log n) times, not once for each mebibyte. */
static Status carry_restore(Lines *l, Block *b)
{
    l->wanted = l->carried < BLOCK_USUAL ? BLOCK_USUAL : 2 * l->carried;
    TRY(reserve(l, &b->text, &b->capacity, l->wanted));
    if (l->carried) memcpy(b->text, l->carry, l->carried);
    b->bytes   = l->carried;
    l->carried = 0;
    return OK;
}

/* Keeps what follows the last complete document for the next block. */
static Status carry_store(Lines *l, Block *b, size_t whole)
{
    size_t rest = b->bytes - whole;
    TRY(reserve(l, &l->carry, &l->capacity, rest));
    if (rest) memcpy(l->carry, b->text + whole, rest);
    l->carried = rest;
    b->bytes   = whole;
    return OK;
}

static int64_t count_newlines(const char *text, size_t bytes)
{
    int64_t count = 0;
    const char *at = text, *stop = at + bytes;
    while (at < stop && (at = memchr(at, '\n', (size_t)(stop - at)))) count++, at++;
    return count;
}

/* The block holds part of a document that is too long: drops it, up to its end. True when the end was
 * found. */
static bool skip_step(Lines *l, Block *b)
{
    const char *end = skipped_end(l, b);
    size_t piece = end ? (size_t)(end - b->text) : b->bytes, gone = piece + (end != NULL);
    l->skipped += (int64_t)piece;
    l->line    += count_newlines(b->text, gone);
    b->bytes   -= gone;
    if (end) memmove(b->text, end + 1, b->bytes);
    return end || l->ended;
}

/* Afterwards the block holds what follows the document, which is carried over; the block itself is empty. */
static Status skip_document(Lines *l, Block *b)
{
    b->line    = l->line;
    l->skipped = 0;
    l->matched = 0;
    while (!skip_step(l, b)) TRY(block_read(l, b));
    TRY(carry_store(l, b, 0));
    b->skipped = l->skipped;
    return OK;
}

static Status block_fill(Lines *l, Block *b)
{
    size_t whole = 0;
    TRY(carry_restore(l, b));
    for (;;) {
        if (!l->ended) TRY(block_read(l, b));
        TRY(first_block_begin(l, b));
        whole = l->ended ? b->bytes : after_last_document(l, b);
        if (whole || l->ended) break;
        if ((int64_t)b->bytes > l->most) return skip_document(l, b);
        size_t most = (size_t)l->most + 1;                      /* enough to see that it is too long */
        l->wanted = 2 * l->wanted < most ? 2 * l->wanted : most;
        TRY(reserve(l, &b->text, &b->capacity, l->wanted));
    }
    return carry_store(l, b, whole);
}

/* If the file ended by damage and not at its end, the last document is incomplete and is dropped, of a file
 * that is one document the last paragraph, while those before it are still returned. The failure of the
 * one-byte read is the message. */
static Status damage_check(Lines *l, Block *b)
{
    size_t none;
    char   byte;
    if (!l->ended || stream_read(l->stream, &byte, 1, &none) == OK) return OK;
    b->bytes = l->kind == BLOCK_FILES ? after_last_end_line(BLOCK_PARAGRAPHS, b) : after_last_document(l, b);
    return b->bytes ? OK : fail(BAD_FILE, "%s", fail_text());
}

static Status lines_fill(Lines *l, Block *b, bool *more)
{
    b->bytes = b->at = 0;
    b->skipped = b->lines = 0;
    *more = false;
    Status status = block_fill(l, b);
    if (status == OK && !b->skipped) status = damage_check(l, b);
    b->bytes_read = stream_bytes_read(l->stream);
    if (status != OK) {
        b->bytes = 0;
        return status;
    }
    *more = b->bytes || b->skipped;
    if (!*more || b->skipped) return OK;
    b->kind  = l->kind;
    b->line  = l->line;
    l->line += count_newlines(b->text, b->bytes);
    return OK;
}

/* ---- a sequence of files. A file that breaks off is left and the next call opens the next one, so that the
 * caller decides whether damage ends its run ---- */

/* A pipe can be opened only once: closing it after a check would end the writer. */
static bool is_pipe(const char *path)
{
    struct stat info;
    return !strcmp(path, "-") || (stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
}

Status input_blocks_check(const InputBlocks *input)
{
    for (int i = 0; i < input->paths; i++) {
        Lines *lines;
        if (is_pipe(input->path[i])) continue;
        TRY(lines_open(&lines, input, i));
        lines_close(lines);
    }
    return OK;
}

const char *input_blocks_name(const InputBlocks *input)
{
    return strcmp(input->path[input->file], "-") ? input->path[input->file] : "standard input";
}

static void next_file(InputBlocks *input)
{
    input_blocks_close(input);
    input->done   = input->bytes_read;
    input->blocks = 0;
    input->file++;
}

/* `bytes_read` counts over all files, for a progress display; that of a block begins at 0 in each file. */
static Status block_fill_from_file(InputBlocks *input, Block *block, bool *more)
{
    block->bytes = 0;
    if (!input->lines) {                    /* only now, so that one file is open at a time */
        TRY(lines_open(&input->lines, input, input->file));
        TRY(stream_ahead(input->lines->stream, input->ahead));
    }
    Status status = lines_fill(input->lines, block, more);
    input->bytes_read  = input->done + block->bytes_read;
    input->blocks += *more;
    return status;
}

Status input_blocks_fill(InputBlocks *input, Block *block, bool *more)
{
    Status status = OK;
    *more = false;
    if (input->broken) next_file(input);
    while (status == OK && !*more && input->file < input->paths) {
        status = block_fill_from_file(input, block, more);
        if (status == OK && !*more) next_file(input);
    }
    input->broken = status != OK;
    return status;
}

void input_blocks_close(InputBlocks *input)
{
    lines_close(input->lines);
    input->lines = NULL;
}

/* ---- documents of a block ---- */

/* The end of the document that begins at text; *next: where the next one may begin. */
static const char *document_end(BlockKind kind, const char *text, const char *stop, const char **next)
{
    if (kind == BLOCK_FILES) return *next = stop;
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

bool block_next(Block *b, Line *line)
{
    while (b->at < b->bytes) {
        char *text = b->text + b->at;
        const char *next = text, *end = document_end(b->kind, text, b->text + b->bytes, &next);
        *line = (Line){ text, end - text, b->line + b->lines };
        b->at    += (size_t)(next - text);
        b->lines += b->kind <= BLOCK_JSON ? 1 : count_newlines(text, (size_t)(next - text));
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
