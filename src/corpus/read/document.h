#ifndef CORPUS_READ_DOCUMENT_H
#define CORPUS_READ_DOCUMENT_H
/* From one line of a file to the texts of its document, with the error messages for a line that has none. */
#include "corpus/read/json_line.h"
#include "corpus/read/lines.h"

/* text[i] becomes the value of key[i] of a JSON line, decoded inside the line, which changes. Any other
 * line is one text, and more than one key is refused with BAD_OPTION. A line without such a text: BAD_FILE.
 * `name`: of the file, for messages. */
Status document_read(JsonText *text, bool json, const char *const *key, int keys, Line line,
                     const char *name);
/* Always BAD_FILE: a document of `bytes` bytes begins in line `line` and `most` is the limit. `said`: the
 * limit was given by --max-document-bytes, so the message names that option. */
Status document_too_long(const char *name, int64_t line, int64_t bytes, int64_t most, bool said);
#endif
