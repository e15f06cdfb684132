#ifndef BASE_STATUS_H
#define BASE_STATUS_H
/* Error handling for the whole program. A failure that a user can correct is a Status, which callers pass
 * upward with TRY; a failure that only a programmer can correct is a CHECK, which stops the job. All ranks
 * agree on a Status with agree() (comm/agree.h) before they act on it, because a rank that returns alone
 * leaves the others waiting.
 *
 *     if (!file) return fail(BAD_FILE, "%s: cannot be read", path);
 *     TRY(file_map(&f, path));
 *     CHECK(t.dtype == F32, "loss must be F32, not %s", dtype_name(t.dtype)); */

#include <stdarg.h>

/* The exit codes are part of the command-line interface: schedulers and scripts test them. */
typedef enum {
    OK,
    BAD_USAGE,      /* unknown or misplaced words on the command line           exit 2 */
    BAD_OPTION,     /* an option's value that a user can correct                exit 1 */
    BAD_FILE,       /* a file is missing, truncated or of another format        exit 1 */
    BAD_SHAPE,      /* model and data, or model and checkpoint, do not fit      exit 1 */
    NO_MEMORY,      /* the system refuses memory or a thread                    exit 3 */
    IO_FAILED,      /* the disk is full or a write fails                        exit 3 */
    INTERRUPTED     /* a signal asked the run to stop; its state is saved       exit 128 + signal */
} Status;

#ifdef __cplusplus
extern "C" {                /* the CUDA and HIP kernels are C++ and use CHECK as well */
#endif
enum { FAIL_BYTES = 2048 };              /* of a message, with its end */
/* Formats a message of fewer than FAIL_BYTES bytes into a buffer of the calling thread (a longer one is
 * truncated) and returns code, so that a caller writes `return fail(...)`. The arguments may include
 * fail_text(). */
Status fail(Status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The calling thread's last message. The buffer belongs to the thread and the next fail() overwrites it. */
const char *fail_text(void);
/* The same for functions that take a format themselves. */
Status fail_list(Status code, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
/* Puts text before the calling thread's last message: return fail_prefix(status, "%s: ", path); */
Status fail_prefix(Status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A failure that is kept, because other calls may fail before it is reported, or because another thread
 * reports it. It begins as { 0 }, which is OK. */
typedef struct { Status status; char text[FAIL_BYTES]; } Failure;
/* Keeps the calling thread's last message if code is not OK. Of several failures the first is kept. Returns
 * code. */
Status failure_keep(Failure *failure, Status code);
/* Makes it the calling thread's last message. Returns its status. */
Status failure_report(const Failure *failure);
int status_exit_code(Status code);
/* Sets which signal INTERRUPTED reports; SIGINT until it is called. Safe in a signal handler. */
void status_signal(int number);

/* What the calling thread is doing, for the message of a CHECK. Thread-local, because ranks may be threads
 * of one process. rank and step are -1 outside a run; op is the name of the operation being executed, or
 * NULL. file_calls counts the writes, syncs and renames done through base/seam.h, and blocks of token files
 * read for their fingerprint, which shows the watchdog that slow file I/O makes progress; another thread
 * reads it, so it is accessed by __atomic built-ins only. */
typedef struct {
    int rank;
    long step;
    const char *op;
    int unit;                              /* unit of the model that is executed; -1: none */
    long file_calls;
    struct Trace *trace;                   /* base/trace.h: of a rank that is profiled; NULL: it is not */
} ThreadContext;
ThreadContext *thread_context(void);

/* Prints one line (rank, host, step, op, message, file:line), ends the whole job with exit code 3 and
 * never returns. */
void stop_world(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Registers the transport's abort, which stop_world calls so that the ranks of other processes end as
 * well. */
void stop_world_hook(void (*abort_job)(int exit_code));
/* A line, with its newline, that stop_world and the watchdog write after their messages: how the run can be
 * resumed. The text lives as long as the process. Set before ranks start. */
void stop_world_advice(const char *line);
const char *stop_world_advised(void);                    /* "": nothing was set */
/* Registers what stop_world calls before that, such as the end of work on devices. */
void stop_world_before(void (*before)(void));
#ifdef __cplusplus
}
#endif

/* Returns from the calling function when `call` fails. */
#define TRY(call)        do { Status try_ = (call); if (try_ != OK) return try_; } while (0)
/* Stops the job when an invariant of the program does not hold. It is active in every build. */
#define CHECK(cond, ...) do { if (!(cond)) stop_world(__FILE__, __LINE__, __VA_ARGS__); } while (0)
#endif
