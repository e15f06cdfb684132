#ifndef LOGS_LOG_FILE_H
#define LOGS_LOG_FILE_H
/* A file that grows by whole records. A record is one write(), between two steps and never in one, so that
 * a killed run leaves whole records and nothing waits in memory; where a full disk takes a part of a record,
 * that part is removed again. A lost record does not stop the training, which costs more than its log: the
 * first one is reported when it is lost, and all by the result of log_file_close. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/file.h"

/* One of zeros is closed. */
typedef struct {
    bool        open;
    int         fd;
    const char *option;                     /* "--metrics", for messages; not owned */
    char        path[1024];
    int64_t     lost;                       /* records that could not be written */
    int         why;                        /* errno of the first of them */
} LogFile;

/* Opens for appending, as O_APPEND does; it need not be a regular file. `alone`: the file must be a new one.
 * BAD_FILE where it cannot be opened. */
Status log_file_open(LogFile *file, const char *option, const char *path, bool alone);
/* Ends a last line that an earlier run left incomplete (killed, or a full disk), so that the first line of
 * this run is whole. */
void   log_file_end_line(const LogFile *file);
/* False where the record is lost. */
bool   log_file_add(LogFile *file, const void *record, size_t bytes);
/* Returns `status`, or IO_FAILED where that is OK and records were lost; `saved` is where the training is
 * saved, NULL for nowhere. */
Status log_file_close(LogFile *file, Status status, const char *saved);

/* The files or folders of earlier runs in a directory of logs. */
typedef struct { char **name; int count, room; } LogNames;      /* name[0 .. count) are owned */
/* The names that begin and end so, the last one in alphabetical order first. A directory that cannot be read
 * is BAD_FILE with the option's name. Freed by the caller. */
Status log_names_find(LogNames *names, const char *option, const char *directory, const char *begin,
                      const char *end);
void   log_names_free(LogNames *names);

/* What a resumed run keeps of a file of earlier ones: its first `bytes`, behind which `removed` records are
 * of later steps. reaches: it has a record of a step that is kept, so that earlier files are kept whole. */
typedef struct { size_t bytes; int64_t removed; bool reaches; } LogKept;
/* place, records: for messages, a file or directory and "lines"; kept: finds it in a file. */
typedef struct {
    const char *option, *place, *records;
    int64_t     resumed;                    /* the last step that is kept */
    LogKept   (*kept)(void *context, const FileMap *map, int64_t resumed);
    void       *context;
    int64_t     removed;                    /* so far: files are cut from the last one back to */
    bool        reaches;                    /* the one that reaches */
} LogCut;
/* Cuts a file; one that is not there, empty or no regular file stays, and all that follow the one that
 * reaches. BAD_FILE. */
Status log_cut     (LogCut *cut, const char *path);
void   log_cut_tell(const LogCut *cut);     /* a line in the log where records were removed */
#endif
