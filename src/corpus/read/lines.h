#ifndef CORPUS_READ_LINES_H
#define CORPUS_READ_LINES_H
/* A file as blocks of whole documents, so that many threads can work on one file.
 *
 *     Block block = { 0 };
 *     Lines *lines;
 *     TRY(lines_open(&lines, path, BLOCK_LINES, LINE_MOST, STREAM_RATIO_MOST));
 *     for (bool more = true; more; ) {
 *         TRY(lines_fill(lines, &block, &more));                    the block is yours, for this file and others
 *         LineWalk walk = { 0 };
 *         for (Line line; block_next(&block, &walk, &line); ) ...
 *     }
 *
 * A document longer than most is never held in memory: it comes as a block of its own, without text, whose `skipped`
 * says how long it was. A block has about a mebibyte, or one document that is longer; some in it may be longer than most. */
#include <stdbool.h>
#include "corpus/read/stream.h"

enum { BLOCK_USUAL = 1 << 20, LINE_MOST = 256 << 20 };

typedef enum {
    BLOCK_LINES,                        /* as wanted: TEXT or JSON, by the name; standard input by its first byte */
    BLOCK_AUTO,                         /* as wanted: any but PARAGRAPHS, by the name and the first bytes */
    BLOCK_TEXT,                         /* a document a line */
    BLOCK_JSON,                         /* an object a line */
    BLOCK_PARAGRAPHS,                   /* documents between blank lines: OSCAR 21.09 */
    BLOCK_DOCS,                         /* <doc id="" url="" title=""> lines </doc>: WikiExtractor */
    BLOCK_PAGES                         /* <page> ... </page>: a dump of MediaWiki */
} BlockKind;

typedef struct {
    BlockKind kind;                     /* one of those below AUTO */
    char   *text;
    size_t  bytes, room;
    int64_t line;                       /* number of the first, from 1 */
    int64_t skipped;                    /* bytes of the document that was too long; else 0 */
    int64_t behind;                     /* bytes of the file read when it was filled */
} Block;

/* A document as it stands in the block; of TEXT and JSON a line without its end, "\n" or "\r\n" */
typedef struct { char *text; int64_t bytes, number; } Line;
typedef struct { size_t at; int64_t lines; } LineWalk;

typedef struct Lines Lines;
Status lines_name_check(const char *path, BlockKind wanted);         /* an ending that we can read? */
Status lines_open (Lines **lines, const char *path, BlockKind wanted, int64_t most, int64_t ratio_most);
Status lines_ahead(Lines *lines, int threads);                       /* right behind the opening: see stream_ahead */
Status lines_fill (Lines *lines, Block *block, bool *more);          /* after a failure the block is empty */
void   lines_close(Lines *lines);
const char *lines_name(const Lines *lines);                          /* as messages say it */

bool   block_next (const Block *block, LineWalk *walk, Line *line);  /* blank lines are passed over; PAGES: corpus/wiki/wiki_page.h */
void   block_free (Block *block);
#endif
