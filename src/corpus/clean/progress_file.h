#ifndef CORPUS_CLEAN_PROGRESS_FILE_H
#define CORPUS_CLEAN_PROGRESS_FILE_H
/* How far a run has come, in WORK/ledger.json, with checksums of itself and of the store's files: written whole, so that a kill leaves either the one of before or this one. */
#include <stdbool.h>
#include "corpus/clean/document_store.h"
#include "corpus/clean/counts.h"

typedef struct {
    int       file;                     /* of the inputs, where reading goes on ... */
    int64_t   blocks;                   /* ... behind so many blocks of it */
    int64_t   done;                     /* bytes of the files before it */
    bool      scanned;                 /* all inputs have been read */
    StoreSize size;
} ProgressFile;

/* tally: of the labels this run counts. *found false: there is none. BAD_OPTION where its identity is another, with the
 * first line that differs */
Status progress_file_read (ProgressFile *progress, CleanCounts *counts, bool *found, const char *folder, const char *identity);
Status progress_file_write(const ProgressFile *progress, const CleanCounts *counts, const char *folder, const char *identity);
bool   progress_file_there (const char *folder);
Status progress_file_forget(const char *folder);
#endif
