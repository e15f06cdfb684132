#ifndef BASE_SEAM_H
#define BASE_SEAM_H
/* The replaceable interface to the operating system: disk, clock and message delivery. All of the
 * program's calls of this kind go through `seam`, as SQLite's go through its VFS, and a test replaces
 * entries to fail the k-th write, to lose a message or to move the clock. It is process-wide and must be
 * set before ranks start, since it has no lock. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each entry returns what the named system call returns, and sets errno on failure. */
typedef struct {
    int     (*open)  (const char *path, int flags, mode_t mode);
    ssize_t (*write) (int fd, const void *data, size_t bytes, off_t at);/* pwrite */
    int     (*sync)  (int fd);                                          /* fsync */
    int     (*close) (int fd);
    int     (*rename)(const char *from, const char *to);
    int     (*mkdir) (const char *path, mode_t mode);
    int     (*remove)(const char *path);                                /* file or empty directory */
    int64_t (*clock) (void);                                            /* nanoseconds, monotonic */
    bool    (*runs)  (int rank, const char *kernels);               /* false: as on a machine without them */
    bool    (*deliver)(int rank, const char *what, long number);        /* false: this rank loses it */
} Seam;

extern Seam       seam;              /* the entries in use */
extern const Seam seam_system;       /* the system's own calls */

/* since an earlier seam.clock() */
static inline double seam_seconds_since(int64_t then) { return (double)(seam.clock() - then) * 1e-9; }

/* Fault injection for tests. JOTUN_FAULT="point:n:action" runs `action` when `point` is reached for the
 * n-th time in this process. Points are write, sync, rename, mkdir, remove and the names given to
 * seam_point (step, evaluation, collective, ...); actions are kill (SIGKILL), stop (SIGSTOP), fail (ENOSPC,
 * or a CHECK at a named point), exit (exit code 3) and term (SIGTERM, which a command may handle). Reads the
 * variable once and replaces the entries of `seam`; without the variable it does nothing. A malformed value
 * is a CHECK. */
void seam_fault_open(void);
/* A named point outside of the calls above, at which JOTUN_FAULT may act. */
void seam_point(const char *point);
#endif
