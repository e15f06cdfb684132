#ifndef COMPAT_BASH_TRACE_H
#define COMPAT_BASH_TRACE_H
/* What a run left, read: the calls of recorders, bash's trace, and the files whose lines it names. From these
 * follow where a word is written, what decides it where runs differ, and which failures bash skipped. */
#include <stdbool.h>
#include <stdint.h>
#include "compat/bash/shut_in.h"

/* Texts that live as long as the record that names them. */
typedef struct {
    char **text;
    int texts, room;
} Texts;
const char *texts_keep(Texts *t, const char *text, int64_t bytes);
const char *texts_format(Texts *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void texts_free(Texts *t);

/* One command or assignment that bash executed. */
typedef struct {
    int depth, pid, line;    /* depth: of substitutions, from 1 */
    const char *file, *text; /* file: as bash names it; "": of bash -c */
    int64_t at;              /* its first byte in the trace */
} TraceEntry;

typedef struct {
    const char *name, *folder;
    int64_t traced;    /* bytes of the trace when it was called */
    int pid[32], pids; /* its process and those above it */
    const char **word; /* [words] */
    int words;
    struct {
        const char *path, *text;
        int64_t bytes;
    } file[16];
    int files;
} CallRecord;

/* A run with what it left. */
typedef struct {
    RunResult result;
    TraceEntry *entry; /* [entries] */
    CallRecord *call;  /* [calls] */
    int entries, entry_room, calls, call_room;
    bool damaged;  /* the script wrote into the records */
    bool old_bash; /* before 4.1 */
} Run;

/* A file that the trace names, as it is on this machine. */
typedef struct {
    const char *seen_as, *shown_as; /* by bash; to people */
    char *text;
    const char **line; /* [lines + 1] where each begins, and the end */
    int lines;
} SourceText;
typedef struct {
    SourceText *source;
    int sources, room;
} Sources;

void run_read(Run *run, Texts *texts); /* the result's texts are cut in place */
void run_close(Run *run);

/* Adds the script and all files that the run's trace names. script: as bash sees it; shown_as: as it was
 * given. */
void sources_add(Sources *s, const Run *run, const char *script, const char *shown_as, const char *folder,
                 Texts *texts);
void sources_free(Sources *s);
const char *source_shown(const Sources *s, const char *seen_as);
/* The text of a line of *bytes bytes; "": the file or the line is missing. */
const char *source_line(const Sources *s, const char *seen_as, int line, int *bytes);

/* Where the word is written that the call was given; value: the word behind it, or NULL. */
typedef struct {
    const char *file;
    int line;
} Place;
Place word_place(const Sources *s, const Run *run, int64_t traced, const char *word, const char *value);
/* The line that writes a file: one with > before its name, or before a variable that has it. */
Place file_place(const Sources *s, const Run *run, const char *path);
/* The line that made the call: of the recorder's process, or of the nearest one above it that bash traced. */
Place call_place(const Sources *s, const Run *run, const CallRecord *call);

/* Names that bash reads from the environment without a default: set nowhere in the sources, never tested. */
typedef struct {
    const char *name;
    bool        counted;        /* in arithmetic */
    const char *file;
    int         line;
    bool        site;           /* of a scheduler's job, also where it has a default */
} UnsetName;
typedef struct {
    UnsetName *name;
    int names, room;
} UnsetNames;
void unset_names(UnsetNames *out, const Sources *s, const char *const *given, int count, Texts *texts);
/* Adds a variable of a scheduler's job where the sources have its name. */
void unset_names_add_site(UnsetNames *out, const Sources *s, const char *name, Texts *texts);
/* Whether the sources read a variable of this name at all. */
bool sources_read(const Sources *s, const char *name);

/* Whether a line that is no comment has the name at all. */
bool sources_name(const Sources *s, const char *name);

/* What decides a word: "program (file:line, VARIABLE)". other: the run that gives another word, `changed`;
 * NULL where it gives none. */
const char *word_cause(const Sources *s, const Run *base, const Run *other, const UnsetNames *unset,
                       const char *word, const char *changed, Texts *texts);
/* What is empty behind an option without a value: "$DEPTH, which line 3 sets to $1 (run.sh:9)"; "": nothing
 * known. */
const char *word_lacks(const Sources *s, const Run *run, Place place, const char *word, Texts *texts);

/* The words of a file that is a list of arguments, with their lines. BAD_FILE where a quote is not closed. */
Status argument_list_read(LaunchCall *call, Texts *texts, const char *path, const char *text,
                          const char *end);

/* Variables of a Slurm job that the #SBATCH lines of its script (a text that ends with NUL) decide. */
enum { SLURM_VARIABLES = 24 };
typedef struct {
    const char *assignment; /* NAME=value */
    int line;
} JobVariable;
int slurm_variables(JobVariable out[SLURM_VARIABLES], const char *text, Texts *texts);

/* Printable, for messages: control characters and broken UTF-8 as \xNN, at most `most` bytes. */
const char *printable(Texts *t, const char *text, int most);
#endif
