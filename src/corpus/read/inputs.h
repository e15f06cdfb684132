#ifndef CORPUS_READ_INPUTS_H
#define CORPUS_READ_INPUTS_H
/* Expands what a user gives as --input into a list of files. An argument is a file; - for standard input; a
 * folder, of which all files are taken, recursively and sorted by bytes so that the order is the same on
 * every machine; or @F, a text file that lists files and folders, one per line, each line no longer than a
 * path may be. A file named @x is given as ./@x.
 *
 * The format of each file is found here (corpus/read/format.h). A .txt of few lines may be a short text or a
 * few documents: in a folder of three texts or more it is a text, unless as many others have a document on
 * each line. */
#include <stdint.h>
#include "corpus/read/lines.h"

/* Files of folders that are not read, of one ending or for one reason. */
typedef struct {
    char    what[48];           /* ".pdf", "no text in UTF-8" */
    char    cure[240];          /* what would read them, or why the first is not read; "" */
    int64_t files, bytes;
    char   *first;              /* the path of the first, owned */
} SkippedFiles;

typedef struct {
    char        **path;             /* [paths], owned */
    BlockKind    *kind;             /* [paths], owned: AUTO of standard input and pipes, else the format */
    int64_t       paths, capacity, kinds_capacity;
    int64_t       bytes;            /* of the regular files */
    SkippedFiles *skipped;          /* [skips], owned */
    int64_t       skips, skips_capacity;
    int64_t       hidden;           /* hidden files and folders, links to folders, broken links, devices */
} Inputs;

/* Fills *inputs, which is empty after a failure. BAD_FILE: something cannot be read, is in no known format,
 * or the result would be empty. */
Status inputs_expand(Inputs *inputs, const char *const *given, int count, const FormatRules *rules);
/* BAD_FILE, with the list, if more than a tenth of the bytes of all files is skipped, unless `skip`
 * (--skip-unreadable) allows it. */
Status inputs_check_skipped(const Inputs *inputs, bool skip);
/* Logs what is skipped, and how many of the files are one document each. command: begins the lines. */
void   inputs_log   (const Inputs *inputs, const char *command);
void   inputs_free  (Inputs *inputs);
#endif
