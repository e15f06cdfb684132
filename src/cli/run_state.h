#ifndef CLI_RUN_STATE_H
#define CLI_RUN_STATE_H
/* What a command that starts others keeps of its work in a folder, so that the same command continues there:
 * a lock, and files of JSON, each replaced as a whole. */
#include <jansson.h>
#include <signal.h>
#include "base/status.h"

/* Makes the folder and takes the lock of `jotun COMMAND` in it. Children inherit the descriptor, so the lock
 * lasts until the last of them has ended; after a kill they may still be ending, which is waited for, up to
 * `seconds`. BAD_FILE: another command holds the lock. */
Status state_lock (int *lock, const char *folder, const char *command, int seconds,
                   const volatile sig_atomic_t *stop);
/* NULL: there is no such file. BAD_FILE: it is no JSON object. The caller owns it. */
Status state_read (json_t **state, const char *path);
Status state_write(const char *path, const json_t *state);
#endif
