#ifndef BASE_STATUS_H
#define BASE_STATUS_H
/* Errors: a Status at the edges, agreement at the joints (comm/agree.h), a stop in the middle.
 *
 * What a person can mend is a Status:   if (!file) return fail(BAD_FILE, "%s: cannot be read", path);   TRY(file_map(&f, path));
 * What only we can mend is a CHECK:     CHECK(t.dtype == F32, "loss wants F32, got %s", dtype_name(t.dtype));          */

typedef enum {
    OK,
    BAD_USAGE,      /* wrong words on the command line     exit 2 */
    BAD_OPTION,     /* a value a person can mend           exit 1 */
    BAD_FILE,       /* a file missing, cut, not what it says it is   exit 1 */
    BAD_SHAPE,      /* model and data or checkpoint do not fit       exit 1 */
    NO_MEMORY,      /* exit 3 */
    IO_FAILED,      /* disk full, write error              exit 3 */
    INTERRUPTED     /* a signal asked us to stop; state is saved     exit 128 + signal */
} Status;

#ifdef __cplusplus
extern "C" {                /* kernels CHECK too */
#endif
/* Keeps the message for the calling thread (512 bytes) and returns code, so that callers say `return fail(...)`. */
Status fail(Status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *fail_text(void);              /* the calling thread's last message */
int status_exit_code(Status code);
void status_signal(int number);            /* which signal INTERRUPTED means; SIGINT until said. May be called in a handler */

/* Where this thread is, so that a stop can say it: rank -1 outside a run. Thread-local, since ranks may be threads.
 * file_calls: writes, syncs and renames done through the seam, which show that slow work on files goes on; written by this
 * thread and read by another, so by the compiler's __atomic calls alone. */
typedef struct { int rank; long step; const char *op; long file_calls; } ThreadContext;
ThreadContext *thread_context(void);

/* Prints one line (rank, host, step, op, file:line, message) and ends the whole job with exit code 3, never returns.
 * Comm hooks in the transport's abort, so that the other ranks end as well. */
void stop_world(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void stop_world_hook(void (*abort_job)(int exit_code));
#ifdef __cplusplus
}
#endif

#define TRY(call)        do { Status try_ = (call); if (try_ != OK) return try_; } while (0)
#define CHECK(cond, ...) do { if (!(cond)) stop_world(__FILE__, __LINE__, __VA_ARGS__); } while (0)
#endif
