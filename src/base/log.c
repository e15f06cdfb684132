/* Log lines, the progress line of a terminal, and numbers written for people. A reader of stderr that
 * stops reading must not stop a training run, so writes never block for long and lost lines are counted
 * and reported later. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLICE_MS = 10, SLICES = 50 };          /* half a second, for a reader that is only slow */
enum { LINE_BYTES = 2304 };                   /* of a line, with its end */

/* Process-wide state, because stderr is: ranks that are threads share it. The lock protects the next
 * three. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            progress_shown;         /* the terminal's present line is the progress line */
static bool            muted;
static long            lost;                   /* lines that were not read in time */
static atomic_bool     unread;                 /* the last text was lost: the next one does not wait */
static atomic_int      copy = -1;              /* file that has all text as well */

bool log_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

void log_mute(bool mute) { muted = mute; }

void log_copy(int fd) { atomic_store(&copy, fd); }

/* What a full disk does not take is lost: the text is on stderr too. */
static void write_copy(const char *text, size_t bytes)
{
    int     fd = atomic_load(&copy);
    ssize_t n  = 1;
    for (; fd >= 0 && bytes > 0 && n > 0; text += n, bytes -= (size_t)n) n = write(fd, text, bytes);
}

/* Opens the pipe or terminal of stderr a second time: O_NONBLOCK belongs to the open file description,
 * so setting it on the inherited descriptor would change it for other processes that share it, such as
 * the shell. -1 where it cannot be opened, and for regular files, whose position is shared and which
 * never block for long. */
static int open_stderr_nonblocking(void)
{
    struct stat about;
    if (fstat(STDERR_FILENO, &about) != 0 || !(S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode))) return -1;
    return open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Tries to write in slices of SLICE_MS. Only async-signal-safe calls: no lock, no allocation. */
bool log_write(const char *text, size_t bytes)
{
    int  outer = errno, own = open_stderr_nonblocking(), fd = own >= 0 ? own : STDERR_FILENO;
    bool waits = !atomic_load(&unread);
    int  slices = waits ? SLICES : 1;
    write_copy(text, bytes);
    while (bytes > 0 && slices > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        ssize_t n = own >= 0 || poll(&ready, 1, 0) > 0 ? write(fd, text, bytes) : 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR) break;            /* the reader has closed its end */
        if (n > 0) {
            text  += n;
            bytes -= (size_t)n;
        } else if (--slices > 0) {
            poll(&ready, 1, SLICE_MS);
        }
    }
    if (own >= 0) close(own);
    atomic_store(&unread, slices == 0);
    errno = outer;
    return slices > 0;
}

/* Called with the lock. Reports the number of lost lines before the first line that can be written again. */
static void put_line(const char *before, const char *text, const char *after)
{
    char line[LINE_BYTES + 64];
    if (muted) return;
    int n = snprintf(line, sizeof line, "\njotun: %ld lines are missing here: standard error was not read\n",
                     lost);
    if (lost && log_write(line, (size_t)n)) lost = 0;
    n = snprintf(line, sizeof line, "%s%s%s", before, text, after);
    if (n > 0 && (lost || !log_write(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1))) lost++;
}

void log_line(const char *format, ...)
{
    char    text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    put_line(progress_shown ? "\r\033[Kjotun: " : "jotun: ", text, "\n");
    progress_shown = false;
    pthread_mutex_unlock(&lock);
}

/* The width now, since a terminal can be resized; 80 where it is not known. */
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
        if (columns <= strlen(text)) {                           /* a line that wraps cannot be replaced */
            text[columns - 1] = '\0';
            char *end = text, *next = text;
            while ((next = strstr(next + 1, "  "))) end = next;  /* half a number would be another one */
            if (end > text) *end = '\0';
        }
        put_line("\r\033[K", text, "");
        progress_shown = true;
    } else {
        put_line("", text, "\n");
    }
    pthread_mutex_unlock(&lock);
}

void log_progress_end(void)
{
    pthread_mutex_lock(&lock);
    if (progress_shown) put_line("", "", "\n");
    progress_shown = false;
    pthread_mutex_unlock(&lock);
}

/* Binary units with one decimal; bytes themselves have none. */
const char *log_bytes(char out[24], double bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int u = 0;
    while (bytes >= 1023.95 && u < 6) bytes /= 1024, u++;      /* from there rounding would print 1024.0 */
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
