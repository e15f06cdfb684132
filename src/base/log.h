#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Lines for a person, on stderr; results go to stdout. A terminal gets one line that stays for progress, a file one plain
 * line at a time and no escape codes. */
#include <stdbool.h>
#include <stddef.h>

/* Every text for stderr is written by this. It waits half a second at most where the reader has stopped (a pipe
 * that is full, a terminal after Ctrl-S), and not at all where the text before was lost the same way; false
 * where the rest is lost so. May be called in a signal handler. */
bool log_write(const char *text, size_t bytes);

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));      /* "jotun: ..." */
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* replaces itself on a terminal, and ends there at the last "  " that fits */
void log_progress_end(void);                                                       /* leaves the last one standing */
void log_mute(void);                                        /* this process keeps still: it is one of many that would say the same */
bool log_terminal(void);
const char *log_bytes(char out[24], double bytes);         /* "71.3 GiB" */
const char *log_time (char out[24], double seconds);       /* "1 h 03 min", "12.4 s" */
#endif
