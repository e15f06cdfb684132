/* Log lines, the progress line of a terminal, and numbers written for people. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* stderr is one for the process, and so is the line that stands on it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            standing, muted;

bool log_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void log_mute(void) { muted = true; }

static void put(const char *text, size_t bytes)
{
    if (muted) return;
    while (bytes) {
        ssize_t n = write(STDERR_FILENO, text, bytes);
        if (n <= 0) return;                    /* nobody reads: no reason to stop training */
        text  += n;
        bytes -= (size_t)n;
    }
}

static void put_line(const char *before, const char *text, const char *after)
{
    char line[1200];
    int  n = snprintf(line, sizeof line, "%s%s%s", before, text, after);
    if (n > 0) put(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void log_line(const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    put_line(standing ? "\r\033[Kjotun: " : "jotun: ", text, "\n");
    standing = false;
    pthread_mutex_unlock(&lock);
}

static size_t terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void log_progress(const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (log_terminal()) {
        size_t columns = terminal_columns();
        if (columns < sizeof text) text[columns - 1] = '\0';     /* a line that wraps cannot be replaced */
        put_line("\r\033[K", text, "");
        standing = true;
    } else {
        put_line("", text, "\n");
    }
    pthread_mutex_unlock(&lock);
}

void log_progress_end(void)
{
    pthread_mutex_lock(&lock);
    if (standing) put("\n", 1);
    standing = false;
    pthread_mutex_unlock(&lock);
}

/* Binary units with one decimal; bytes themselves have none. */
const char *log_bytes(char out[24], double bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int u = 0;
    while (bytes >= 1023.95 && u < 6) bytes /= 1024, u++;      /* never 1024.0 of the one before */
    snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return out;
}

/* The largest two units. Thresholds are where rounding would carry into the next unit, so "60.0 s" is
 * never printed. */
const char *log_time(char out[24], double seconds)
{
    unsigned whole = seconds < 4e9 ? (unsigned)(seconds + 0.5) : 4000000000u;
    if (seconds < 0.9995)     snprintf(out, 24, "%.3g ms", seconds * 1e3);
    else if (seconds < 59.95) snprintf(out, 24, "%.1f s", seconds);
    else if (whole < 3600)    snprintf(out, 24, "%u min %02u s", whole / 60, whole % 60);
    else if (whole < 86400)   snprintf(out, 24, "%u h %02u min", whole / 3600, whole / 60 % 60);
    else                      snprintf(out, 24, "%u d %02u h", whole / 86400, whole / 3600 % 24);
    return out;
}
