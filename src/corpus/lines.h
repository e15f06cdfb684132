#ifndef CORPUS_LINES_H
#define CORPUS_LINES_H
/* A file as blocks of whole lines, so that many threads can work on one file.
 *
 *     Block block = { 0 };
 *     Lines *lines;
 *     TRY(lines_open(&lines, path, LINE_MOST, STREAM_RATIO_MOST));
 *     for (bool more = true; more; ) {
 *         TRY(lines_fill(lines, &block, &more));                    the block is yours, for this file and others
 *         LineWalk walk = { 0 };
 *         for (Line line; block_next(&block, &walk, &line); ) ...
 *     }
 *
 * A line longer than line_most is never held in memory: it comes as a block of its own, without text, whose `skipped`
 * says how long it was. A block has about a mebibyte, or one line that is longer.                                    */
#include <stdbool.h>
#include "corpus/stream.h"

enum { BLOCK_USUAL = 1 << 20, LINE_MOST = 256 << 20 };

typedef struct {
    char   *text;
    size_t  bytes, room;
    int64_t line;                       /* number of the first, from 1 */
    int64_t skipped;                    /* bytes of the line that was too long; else 0 */
    int64_t behind;                     /* bytes of the file read when it was filled */
    bool    json;
} Block;

typedef struct { char *text; int64_t bytes, number; } Line;          /* without its end, "\n" or "\r\n" */
typedef struct { size_t at; int64_t lines; } LineWalk;

typedef struct Lines Lines;
Status lines_name_check(const char *path);                           /* an ending that we can read? */
Status lines_open (Lines **lines, const char *path, int64_t line_most, int64_t ratio_most);
Status lines_fill (Lines *lines, Block *block, bool *more);          /* after a failure the block is empty */
void   lines_close(Lines *lines);
const char *lines_name(const Lines *lines);                          /* as messages say it */

bool   block_next (const Block *block, LineWalk *walk, Line *line);  /* blank lines are passed over */
void   block_free (Block *block);
#endif
