#ifndef CORPUS_READ_SOURCE_H
#define CORPUS_READ_SOURCE_H
/* Documents, one after the other, from
 *     F.txt             one document a line; empty lines are passed over
 *     F.jsonl, F.json   one JSON object a line, whose `key` is the text; "" is an empty document
 *     -                 standard input: JSON lines where it begins with {, else text
 * each also packed (corpus/read/stream.h). Memory holds a block of lines, and a line above LINE_MOST is refused.
 * For many threads, many keys and broken lines to be passed over there is data/tokenize.h.                            */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct { const char *text; int64_t bytes; } Document;    /* good until the next source_next or source_close */
typedef struct Source Source;

Status  source_open (Source **source, const char *path, const char *key);
Status  source_next (Source *source, Document *document, bool *more);   /* a broken line: BAD_FILE with file:line */
void    source_close(Source *source);
bool    source_json (const Source *source);      /* of the last document: a line of JSON, not of plain text */
int64_t source_read (const Source *source);      /* bytes of the file behind us, to the end of a block of lines */
int64_t source_size (const char *path);          /* bytes of a file; -1 where nobody can know */
#endif
