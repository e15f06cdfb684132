#ifndef CORPUS_READ_DOCUMENT_H
#define CORPUS_READ_DOCUMENT_H
/* From a line to the texts of its document, with words for a line that is none. */
#include "corpus/read/json_line.h"
#include "corpus/read/lines.h"

/* text[i] is under key[i] of a JSON line, in the line itself, which changes; any other line is one text. name: the file's */
Status document_read(JsonText *text, bool json, const char *const *key, int keys, Line line, const char *name);
/* BAD_FILE, always. said: --max-document-bytes says `most` */
Status document_too_long(const char *name, int64_t line, int64_t bytes, int64_t most, bool said);
#endif
