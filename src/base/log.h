#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Messages for people, on stderr; results go to stdout. On a terminal the progress line is rewritten in
 * place; in a file or a pipe every line is plain and ends with a newline, without escape codes. All
 * functions may be called by any thread. */
#include <stdbool.h>
#include <stddef.h>

/* Writes all text for stderr. Where the reader does not read (a full pipe, a terminal stopped by Ctrl-S)
 * it waits half a second at most, and not at all if the text before was lost for the same reason, so
 * that training cannot hang on its own messages. False where the rest of the text is lost. Safe in a
 * signal handler; errno is preserved. */
bool log_write(const char *text, size_t bytes);

/* What log_write takes from now on is written to this descriptor too, which stays open; -1: to none. */
void log_copy(int fd);

/* One line, preceded by "jotun: ", of at most 2303 bytes: a message of fail() and what is around it. The
 * progress line has at most 1023. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The progress line. On a terminal it replaces the one before; a text wider than the terminal is
 * truncated at the last double space that fits, so fields are separated by two spaces. */
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_progress_end(void);                               /* ends the progress line, which stays visible */
void log_mute(bool mute);                                  /* log_line prints nothing: one of many ranks */
bool log_terminal(void);                                   /* stderr is a terminal with escape codes */
/* Numbers for people, written to `out`, which is returned. */
const char *log_bytes(char out[24], double bytes);         /* "71.3 GiB" */
const char *log_time (char out[24], double seconds);       /* "1 h 03 min", "12.4 s" */
#endif
