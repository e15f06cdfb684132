#ifndef CORPUS_READ_SOURCE_H
#define CORPUS_READ_SOURCE_H
/* Documents of one file, one after the other, on one thread:
 *     F.txt             one document per line; empty lines are skipped
 *     F.jsonl, F.json   one JSON object per line, whose `key` is the text; "" is an empty document
 *     -                 standard input: JSON lines where it begins with {, else text
 * each also compressed (corpus/read/stream.h). Memory holds one block of lines, and a line above LINE_MOST
 * is refused. data/tokenize.h is the reader for many threads and many keys, which can pass over broken
 * lines. */
#include "corpus/read/json_line.h"
#include "corpus/read/lines.h"

/* Valid until the next source_next or source_close. */
typedef struct { const char *text; int64_t bytes; } Document;
typedef struct Source Source;

/* Copies key; *source is NULL on failure. texts: their encoding, see InputBlocks. */
Status  source_open (Source **source, const char *path, const char *key, TextRules texts);
/* *more is false at the end. A broken line is BAD_FILE with file and line number. */
Status  source_next (Source *source, Document *document, bool *more);
void    source_close(Source *source);        /* NULL is allowed */
bool    source_json (const Source *source);  /* the last document was a JSON line, not plain text */
int64_t source_size (const char *path);      /* bytes of a regular file; -1: unknown, as of pipes */

/* ---- one line, for readers of blocks ---- */

/* text[i] becomes the value of key[i] of a JSON line, decoded inside the line, which changes. Any other
 * line is one text, and more than one key is refused with BAD_OPTION. A line without such a text: BAD_FILE.
 * `name`: of the file, for messages. */
Status document_read(JsonText *text, bool json, const char *const *key, int keys, Line line,
                     const char *name);
/* Always BAD_FILE: a document of `bytes` bytes begins in line `line` and `most` is the limit. `said`: the
 * limit was given by --max-document-bytes, so the message names that option. */
Status document_too_long(const char *name, int64_t line, int64_t bytes, int64_t most, bool said);
#endif
