#ifndef CORPUS_CLEAN_PROGRESS_FILE_H
#define CORPUS_CLEAN_PROGRESS_FILE_H
/* How far a run has come, in the file `progress` of its work directory, with checksums of itself and of the
 * document store's files. It is replaced atomically, so a killed run leaves either the previous state or the
 * new one. Numbers are in the machine's byte order, as those of the document store. */
#include <stdbool.h>
#include "corpus/clean/document_store.h"
#include "corpus/clean/counts.h"

typedef struct {
    int64_t   file;                     /* index of the input in which reading resumes ... */
    int64_t   blocks;                   /* ... after so many of its blocks */
    int64_t   done;                     /* bytes of the inputs before it */
    int64_t   scanned;                  /* 1: all inputs have been read */
    StoreSize size;                     /* of the document store at that point */
} ProgressFile;

/* Reads the progress; `counts` is replaced, and must have the number of languages that
 * this run counts. *found is false where there is no file. BAD_OPTION: the file has another identity
 * (options or inputs changed); the message shows the first line that differs. BAD_FILE: damaged, or
 * written by another program. */
Status progress_file_read  (ProgressFile *progress, CleanCounts *counts, bool *found, const char *folder,
                            const char *identity);
Status progress_file_write (const ProgressFile *progress, const CleanCounts *counts, const char *folder,
                            const char *identity);
bool   progress_file_there (const char *folder);
Status progress_file_forget(const char *folder);            /* removes it; OK where there is none */
#endif
