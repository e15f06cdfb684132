#ifndef COMPAT_BASH_RUNS_H
#define COMPAT_BASH_RUNS_H
/* The runs of one script, from which its record is made. */
#include <limits.h>
#include "compat/bash/trace.h"

enum {
    LACKINGS_MOST = 200,
    VARIABLES_MOST = 400,
    ANSWERS = 4,
    EDITS_MOST = 16,
    RUNS_MOST = ANSWERS + EDITS_MOST + 1
};

typedef struct {
    const LaunchInput *in;
    LaunchRecord *out;
    Texts texts;
    int note_room;
    char script[PATH_MAX], current[PATH_MAX], own[PATH_MAX], top[PATH_MAX];
    const char *bash;
    JobVariable job[SLURM_VARIABLES]; /* of the script's own #SBATCH lines, which the caller does not set */
    int jobs;
    Lacking lacking[LACKINGS_MOST];
    int lackings;
    LaunchWay way; /* the one that works here */
    Run run[RUNS_MOST]; /* [runs] base, some with other answers, one for each edit, and one without a trace */
    const char *cause[RUNS_MOST]; /* why it differs from the base, such as what decides an edited condition;
                                   * NULL: other answers */
    int runs;
    Edit edit[EDITS_MOST];
    const char *patterns; /* patterns of grep, each in a line */
    Sources sources;
    const char *folder; /* in which the script starts */
    bool numbers;       /* variables that are not set get numbers */
    bool lenient;       /* of the base run */
    bool untraced;
} Launch;

/* The base run, where it misses least, those with other answers, the edited ones, and one without a trace. */
Status runs_make(Launch *l);
int runs_seconds(const Launch *l); /* the most that one may take */
bool is_variable_set(const Launch *l, const char *name); /* by the caller or the job; also NAME=value */
/* Its name, so that a person sees what is missing; a number where a name would end the script. */
const char *unset_value(const Launch *l, const SourceName *name, int answers);
void note_add(Launch *l, const char *file, int line, const char *text);
/* The failures that the base run skipped; tell: each becomes a note. */
int failures(Launch *l, bool tell);
/* What bash itself prints, "FILE: line N: TEXT", from the first `what`; NULL: nothing. */
const char *bash_says(Launch *l, const char *what, int *line);
#endif
