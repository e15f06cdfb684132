#ifndef BASE_SEAM_H
#define BASE_SEAM_H
/* The one thin seam between us and the world: disk, transport, clock. Everything goes through `seam`, which a test may
 * replace to fail the k-th write, lose a message or jump the clock. Process-wide, set before ranks start. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int     (*open)  (const char *path, int flags, mode_t mode);
    ssize_t (*write) (int fd, const void *data, size_t bytes, off_t at);      /* pwrite */
    int     (*sync)  (int fd);                                                /* fsync */
    int     (*close) (int fd);
    int     (*rename)(const char *from, const char *to);
    int     (*mkdir) (const char *path, mode_t mode);
    int     (*remove)(const char *path);                                      /* file or empty folder */
    int64_t (*clock) (void);                                                  /* nanoseconds, monotonic */
    bool    (*deliver)(int rank, const char *what, long number);              /* false: this rank loses this message */
} Seam;

extern Seam       seam;              /* what is in force */
extern const Seam seam_system;       /* the system's own calls */
/* JOTUN_FAULT="point:n:action" (tests): point is write, sync, rename, step, collective ...; the n-th time it is reached
 * action is done: kill (SIGKILL), stop (SIGSTOP), fail (ENOSPC), exit. Called at named points; does nothing when unset. */
void seam_fault_open(void);          /* reads the environment once and puts itself in `seam` */
void seam_point(const char *point);  /* a named point outside the calls above */
#endif
