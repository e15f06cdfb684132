#ifndef CORPUS_CLEAN_LEDGER_H
#define CORPUS_CLEAN_LEDGER_H
/* How far a run has come, in WORK/ledger.json: written whole, so that a kill leaves either the one of before or this one. */
#include <stdbool.h>
#include "corpus/clean/stash.h"
#include "corpus/clean/tally.h"

typedef struct {
    int       file;                     /* of the inputs, where reading goes on ... */
    int64_t   blocks;                   /* ... behind so many blocks of it */
    int64_t   done;                     /* bytes of the files before it */
    bool      gathered;                 /* all inputs have been read */
    StashSize size;
} Ledger;

/* tally: of the labels this run counts. *found false: there is none. BAD_OPTION where its identity is another, with the
 * first line that differs */
Status ledger_read (Ledger *ledger, Tally *tally, bool *found, const char *folder, const char *identity);
Status ledger_write(const Ledger *ledger, const Tally *tally, const char *folder, const char *identity);
bool   ledger_there (const char *folder);
Status ledger_forget(const char *folder);
#endif
