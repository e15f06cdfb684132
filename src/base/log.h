#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Lines for a person, on stderr; results go to stdout. A terminal gets one line that stays for progress, a file one plain
 * line at a time and no escape codes. */
#include <stdbool.h>

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));      /* "jotun: ..." */
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* replaces itself on a terminal */
void log_progress_end(void);                                                       /* leaves the last one standing */
void log_mute(void);                                        /* this process keeps still: it is one of many that would say the same */
bool log_terminal(void);
const char *log_bytes(char out[24], double bytes);         /* "71.3 GiB" */
const char *log_time (char out[24], double seconds);       /* "1 h 03 min", "12.4 s" */
#endif
