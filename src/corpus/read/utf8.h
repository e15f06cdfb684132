#ifndef CORPUS_READ_UTF8_H
#define CORPUS_READ_UTF8_H
/* Checks and repairs text that must be UTF-8 without NUL. */
#include "corpus/read/buffer.h"

int64_t utf8_broken(const char *text, int64_t bytes);  /* first byte that is invalid or NUL; -1: none */
/* Appends the text with each such byte replaced by U+FFFD; fails only with NO_MEMORY. */
Status  utf8_repair(Buffer *out, const char *text, int64_t bytes);
#endif
