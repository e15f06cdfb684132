#ifndef CORPUS_READ_LINES_H
#define CORPUS_READ_LINES_H
/* A file as a sequence of blocks of whole documents, so that many threads can work on one file.
 *
 *     Block block = { 0 };
 *     Lines *lines;
 *     TRY(lines_open(&lines, path, BLOCK_LINES, LINE_MOST, STREAM_RATIO_MOST, (TextRules){ 0 }));
 *     for (bool more = true; more; ) {
 *         TRY(lines_fill(lines, &block, &more));                    the block is the caller's and is reused
 *         LineWalk walk = { 0 };
 *         for (Line line; block_next(&block, &walk, &line); ) ...
 *     }
 *
 * A block has about one mebibyte, or one document that is longer. A document longer than `most` is never
 * held in memory: it is reported as a block of its own without text, whose `skipped` is its length.
 * Documents inside a block may still be somewhat longer than `most`, so the caller checks each. */
#include <stdbool.h>
#include "corpus/read/stream.h"

enum { BLOCK_USUAL = 1 << 20, LINE_MOST = 256 << 20 };  /* bytes of a block; default limit for a document */

typedef enum {
    BLOCK_LINES,       /* as wanted: TEXT or JSON, by the name; standard input by its first byte */
    BLOCK_AUTO,        /* as wanted: any but PARAGRAPHS, by the name and the first bytes */
    BLOCK_TEXT,        /* one document per line */
    BLOCK_JSON,        /* one JSON object per line */
    BLOCK_PARAGRAPHS,  /* documents separated by blank lines: OSCAR 21.09 */
    BLOCK_DOCS,        /* <doc id="" url="" title=""> lines </doc>: WikiExtractor */
    BLOCK_PAGES        /* <page> ... </page>: a MediaWiki dump */
} BlockKind;

typedef struct {
    BlockKind  kind;            /* as found: never LINES or AUTO */
    char      *text;            /* owned; documents are decoded inside it */
    size_t     bytes, capacity; /* bytes in use; bytes of memory */
    int64_t    line;            /* number of its first line in the file, from 1 */
    int64_t    skipped;         /* bytes of a document that was too long; else 0 */
    int64_t    bytes_read;      /* (compressed) bytes of the file read when it was filled */
} Block;

/* One document in the block; of TEXT and JSON one line without its "\n" or "\r\n". number: of its first
 * line. */
typedef struct { char *text; int64_t bytes, number; } Line;
typedef struct { size_t at; int64_t lines; } LineWalk;  /* bytes and lines of the block already walked over */

typedef struct Lines Lines;
/* BAD_FILE where the ending of the name is not one of a known format; the file itself is not looked at. */
Status lines_name_check(const char *path, BlockKind wanted);
/* most: longest document in bytes. ratio_most: see stream_open. texts: how the text is read, where it is not
 * UTF-8 or what its byte order mark says (stream_texts). *lines is NULL after a failure. */
Status lines_open (Lines **lines, const char *path, BlockKind wanted, int64_t most, int64_t ratio_most,
                   TextRules texts);
/* Decompresses on several threads; called right after lines_open or not at all: see stream_ahead. */
Status lines_ahead(Lines *lines, int threads);
/* *more is false at the end of the file. After a failure the block is empty; what precedes damage is
 * returned first. */
Status lines_fill (Lines *lines, Block *block, bool *more);
void   lines_close(Lines *lines);            /* NULL is allowed */
const char *lines_name(const Lines *lines);  /* for messages; lives until lines_close */

/* The next document; false at the end of the block. Blank lines are skipped. Of PAGES an item is a stretch
 * that ends with one </page>; corpus/wiki/wiki_page.h finds the page in it. */
bool   block_next (const Block *block, LineWalk *walk, Line *line);
void   block_free (Block *block);
#endif
