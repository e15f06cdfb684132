#ifndef CORPUS_READ_UTF8_H
#define CORPUS_READ_UTF8_H
/* Texts that are to be UTF-8 without NUL. */
#include "corpus/read/buffer.h"

int64_t utf8_broken(const char *text, int64_t bytes);            /* the first byte that is wrong or NUL; -1: none */
Status  utf8_repair(Buffer *out, const char *text, int64_t bytes);      /* added, each such byte as U+FFFD */
#endif
