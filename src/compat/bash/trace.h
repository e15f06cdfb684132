#ifndef COMPAT_BASH_TRACE_H
#define COMPAT_BASH_TRACE_H
/* What a run left, read: the calls of recorders, bash's trace, and the files whose lines it names. From these
 * follow where a word is written, what decides it where runs differ, and which failures bash skipped. */
#include <stdbool.h>
#include <stdint.h>
#include "compat/bash/shut_in.h"

/* Texts and arrays that live as long as the record that names them. */
typedef struct {
    void **item;
    int items, room;
} Texts;
void *texts_room(Texts *t, size_t bytes); /* zeros */
const char *texts_keep(Texts *t, const char *text, int64_t bytes);
const char *texts_format(Texts *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first `bytes` of a text, a middle, an end. */
const char *texts_join(Texts *t, const char *text, int64_t bytes, const char *middle, const char *end);
/* For messages: control characters and broken UTF-8 as \xNN, at most `most` bytes. */
const char *texts_printable(Texts *t, const char *text, int64_t bytes, int most);
void texts_free(Texts *t);

typedef struct {
    const char *file; /* "": not known */
    int line;
} Place;

/* ---- a run (trace.c) ---- */

/* One command or assignment that bash executed. */
typedef struct TraceEntry {
    int depth, pid, line;           /* depth: of substitutions, from 1 */
    const char *file, *text;        /* file: as bash names it; "": of bash -c */
    int64_t at;                     /* its first byte in the trace */
    const struct TraceEntry *twin;  /* in the run it is compared with; NULL: it has none */
    bool answered;                  /* sets a variable that depends on answers (conditions.c) */
} TraceEntry;

typedef struct {
    const char *name, *folder;
    int64_t traced;    /* bytes of the trace when it was called */
    int pid[32], pids; /* its process and those above it */
    const char **word; /* [words] */
    int words;
    struct {
        const char *path, *text;
    } file[16];
    int files;
} CallRecord;

typedef struct {
    RunOutput *output; /* owned; its texts are cut in place */
    TraceEntry *entry; /* [entries] */
    CallRecord *call;  /* [calls] */
    int entries, entry_room, calls, call_room;
    bool damaged;      /* the script wrote into the records */
    bool old_bash;     /* before 4.1 */
} Run;

void run_read(Run *run, Texts *texts);
void run_close(Run *run);
size_t assigned_letters(const char *text); /* NAME= or NAME+= at the beginning of an entry; 0: it is none */
/* The next path that an entry gives to a reader of files or a test, from *p on; false: no more. */
bool entry_reads(char path[1024], const char **p, const TraceEntry *e);
/* The word of a call that is its program: a .py file, or a module behind -m or --module. -1: it has none. */
int program_word(const CallRecord *call);

/* ---- what the trace names (sources.c) ---- */

/* A file, as it is on this machine. */
typedef struct {
    const char *seen_as, *shown_as; /* by bash; to people */
    const char *path;               /* absolute, without links */
    char *text;
    const char **line; /* [lines + 1] where each begins, and the end */
    int lines;
} SourceText;

/* A name that the sources have, with all that they do with it. */
typedef struct {
    const char *name;
    Place place;          /* where it is read first */
    bool read, assigned;
    bool tested;          /* or has a default: being unset has a meaning there */
    bool counted;         /* in arithmetic */
    bool unset, site;     /* has a made-up value in runs with other answers; site: of a scheduler's job */
    const char *lost;     /* a file that is sourced and missing, and might set it; NULL: none */
} SourceName;

typedef struct {
    SourceText *source;
    SourceName *name;
    int sources, room, names, name_room;
} Sources;

/* Adds the script and all files that the run's trace names. script: as bash sees it; shown_as: as given. */
void sources_add(Sources *s, const Run *run, const char *script, const char *shown_as, const char *folder,
                 Texts *texts);
void sources_free(Sources *s);
const SourceText *source_find(const Sources *s, const char *seen_as); /* NULL: none of them */
const char *source_shown(const Sources *s, const char *seen_as);      /* "": none of them */
/* The text of a line of *bytes bytes; "": the file or the line is missing. */
const char *source_line(const Sources *s, const char *seen_as, int line, int *bytes);
SourceName *source_name(const Sources *s, const char *name); /* NULL: they have none of it */
bool source_reads_unset(const SourceName *name); /* without a test or a default, and nothing sets it */
bool is_common_name(const char *name); /* that bash sets itself, or every system's environment has */
bool is_machine_name(const char *name); /* of bash's own variables those that another run has otherwise */
bool is_name_letter(char c);
/* The word in a text, not as a part of a longer one; NULL: it has none. */
const char *find_word(const char *text, const char *end, const char *word);

/* Where the word is written that the call was given; value: the word behind it, or NULL. */
Place word_place(const Sources *s, const Run *run, int64_t traced, const char *word, const char *value);
/* The line that writes a file: one with > before its name, or before a variable that has it. */
Place file_place(const Sources *s, const Run *run, const char *path);
/* The line that made the call: of the recorder's process, or of the nearest one above it that bash traced. */
Place call_place(const Sources *s, const Run *run, const CallRecord *call);

/* ---- what decides (cause.c) ---- */

/* Finds the twin of each entry in the other run: at the same place, as often met before. */
void runs_pair(Run *run, Run *other);
/* What decides a word: "program (file:line, VARIABLE)". other: the run with which `base` is paired, and which
 * gives another word, `changed`; NULL where it gives none. */
const char *word_cause(const Sources *s, const Run *base, const Run *other, const char *word,
                       const char *changed, Texts *texts);
/* Letters of the name in "$NAME" or "${NAME}" or "$1" at p; 0: it is none. */
size_t variable_at(const char *p, const char *end, const char **name);
/* What a variable was set to last before an entry; "": nothing */
const char *last_value(const Run *run, const TraceEntry *at, const char *name, size_t letters, Texts *texts);
/* What is empty behind an option without a value: "$DEPTH, which line 3 sets to $1 (run.sh:9)"; "": nothing
 * known. */
const char *word_lacks(const Sources *s, const Run *run, Place place, const char *word, Texts *texts);

/* Whether a program answers within an entry, or the entry reads a file that is missing. */
bool entry_answered(const Sources *s, const Run *base, const Run *other, const TraceEntry *e);
/* What decides an entry: "nvidia-smi (run.sh:1, GPUS)". */
const char *entry_cause(const Sources *s, const Run *base, const Run *other, const TraceEntry *e,
                        Texts *texts);

/* ---- conditions that answers decide (conditions.c) ---- */

/* A change of a file that gives a condition its other outcome. */
typedef struct {
    const SourceText *source;
    const char *from, *to, *text; /* text replaces the source's [from, to) */
    const char *cause;            /* what decides the condition */
    int inside;                   /* the edit without which the condition is not reached; -1: none */
} Edit;
/* Adds to edit[edits] those of the conditions of `base`, a run with the edit `inside`, that the comparison
 * with another run shows. Returns how many there are, at most one more than `most`, for which is room. */
int conditions_find(Edit *edit, int edits, int most, int inside, const Sources *s, Run *base, Run *other,
                    Texts *texts);
int calls_of(const Run *run); /* of programs */

/* ---- other texts ---- */

/* The words of a file that is a list of arguments, with their lines. BAD_FILE where a quote is not closed. */
Status argument_list_read(LaunchCall *call, Texts *texts, const char *path, const char *text,
                          const char *end);

/* Variables of a Slurm job that the #SBATCH lines of its script (a text that ends with NUL) decide, together
 * with those that the caller gives [variables]. */
enum { SLURM_VARIABLES = 24 };
typedef struct {
    const char *assignment; /* NAME=value */
    int line;               /* 0: it follows from what the caller gives */
} JobVariable;
int slurm_variables(JobVariable out[SLURM_VARIABLES], const char *text, const char *const *variable,
                    int variables, Texts *texts);
#endif
