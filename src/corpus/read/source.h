#ifndef CORPUS_READ_SOURCE_H
#define CORPUS_READ_SOURCE_H
/* Documents of one file, one after the other, on one thread:
 *     F.txt             one document per line; empty lines are skipped
 *     F.jsonl, F.json   one JSON object per line, whose `key` is the text; "" is an empty document
 *     -                 standard input: JSON lines where it begins with {, else text
 * each also compressed (corpus/read/stream.h). Memory holds one block of lines, and a line above LINE_MOST
 * is refused. data/tokenize.h is the reader for many threads and many keys, which can pass over broken
 * lines. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "corpus/read/encoding.h"

/* Valid until the next source_next or source_close. */
typedef struct { const char *text; int64_t bytes; } Document;
typedef struct Source Source;

/* Copies key; *source is NULL on failure. */
Status  source_open (Source **source, const char *path, const char *key);
/* See lines_texts; called right after source_open. */
Status  source_texts(Source *source, TextRules rules);
/* *more is false at the end. A broken line is BAD_FILE with file and line number. */
Status  source_next (Source *source, Document *document, bool *more);
void    source_close(Source *source);        /* NULL is allowed */
bool    source_json (const Source *source);  /* the last document was a JSON line, not plain text */
/* (compressed) bytes read of the file, up to the end of a block */
int64_t source_read (const Source *source);
int64_t source_size (const char *path);      /* bytes of a regular file; -1: unknown, as of pipes */
#endif
