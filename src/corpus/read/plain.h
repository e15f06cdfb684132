#ifndef CORPUS_READ_PLAIN_H
#define CORPUS_READ_PLAIN_H
/* The run of text at the beginning of a JSON string which needs no look at each byte: whole characters of good UTF-8, none of them
 * a quote, a backslash or a control. Exact where it stops at one of those; it may stop earlier, at the beginning of any character. */
#include <stdint.h>

int64_t plain_run(const char *text, int64_t bytes);
#endif
