/* The lock of a folder, and state as JSON. */
#include "cli/run_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"

Status state_lock(int *lock, const char *folder, const char *command, int seconds,
                  const volatile sig_atomic_t *stop)
{
    char name[64], path[1024];
    bool taken = false;
    snprintf(name, sizeof name, "%s.lock", command);
    TRY(folder_make(folder));
    TRY(path_join(path, folder, name));
    *lock = open(path, O_RDWR | O_CREAT, 0666);
    if (*lock < 0) return fail(BAD_FILE, "%s cannot be opened: %s", path, strerror(errno));
    for (int tenths = 0; !taken && tenths < 10 * seconds && !*stop; tenths++) {
        TRY(file_lock(*lock, path, &taken));
        if (!taken && tenths == 10) log_line("waits for another jotun %s in %s to end", command, folder);
        if (!taken) usleep(100000);
    }
    if (taken) return OK;
    if (*stop) return fail(INTERRUPTED, "stopped by a signal before anything was begun");
    return fail(BAD_FILE, "%s: another jotun %s is at work there; wait until it ends, or give another folder",
                folder, command);
}

Status state_read(json_t **state, const char *path)
{
    json_error_t error;
    FILE        *in;
    *state = NULL;
    if (!file_exists(path)) return OK;
    TRY(file_stream(&in, path));
    *state = json_loadf(in, 0, &error);
    fclose(in);
    if (json_is_object(*state)) return OK;
    json_decref(*state);
    *state = NULL;
    return fail(BAD_FILE, "%s is no JSON object (%s); remove the folder that it is in to begin again", path,
                *error.text ? error.text : "another value");
}

Status state_write(const char *path, const json_t *state)
{
    char *text = json_dumps(state, JSON_INDENT(1));
    if (!text) return fail(NO_MEMORY, "no memory for %s", path);
    Status status = file_write_whole(path, text, strlen(text));
    free(text);
    return status;
}
