#ifndef CORPUS_READ_PLAIN_H
#define CORPUS_READ_PLAIN_H
/* The hot loop of the JSON reader: how much of a string can be accepted without looking at single bytes. */
#include <stdint.h>

/* Bytes at the beginning of `text` that are whole characters of valid UTF-8, none of them a quote, a
 * backslash or a control character. It may stop early, at the beginning of any character, but never late:
 * the caller examines the next one. */
int64_t plain_run(const char *text, int64_t bytes);
#endif
