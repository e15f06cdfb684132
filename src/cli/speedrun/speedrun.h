#ifndef CLI_SPEEDRUN_H
#define CLI_SPEEDRUN_H
/* jotun speedrun: its directory, its state, and the stages of a run. Private to cli/speedrun. */
#include <jansson.h>
#include <signal.h>
#include "cli/child_process.h"
#include "conf/conf.h"
#include "plan/recipe.h"

_Static_assert(sizeof(json_int_t) == sizeof(int64_t), "json_unpack writes counts in place");

/* What --input names. */
typedef struct { int64_t files; double bytes; } SpeedrunInputs;

/* The state is the file speedrun.json of the directory, replaced as a whole after each stage and each
 * depth that is measured:
 *     { "asked": {...}, "stages": { "clean": { "seconds": 1.5, ... facts of the stage }, ... },
 *       "measured": { "1": { "step": 0.017, "took": 1.2 }, ... by depth } }
 * step: seconds of a training step; took: seconds that measuring it took.
 * A stage that has an entry is done, and is run again only where what it leaves for the user is gone. */
typedef struct {
    const Options               *o;
    const char                  *folder;
    json_t                      *state; /* owned */
    int                          lock; /* descriptor; children inherit it, so that it outlives this process */
    bool                         made; /* this start has made the directory */
    SpeedrunInputs               inputs; /* of a run that this start began; no files: not looked at yet */
    const volatile sig_atomic_t *stop; /* a signal asks this process to end */
} Speedrun;

/* BAD_FILE or BAD_OPTION where nothing or too little of it can be read, or cleaning it would take most of the
 * minutes: known before a directory is made. */
Status speedrun_inputs (SpeedrunInputs *found, const Options *o);
/* --minutes; 0: another option says how large the run is. */
double speedrun_minutes(const Options *o);
/* --threads, else the cores of this process */
int    speedrun_threads(const Options *o);
/* BAD_OPTION where --heldout names no part of the texts. */
Status speedrun_check_heldout(const Options *o);
/* What the options ask of the recipe; its texts are not known yet. */
RecipeAsk speedrun_ask(const Options *o);

/* A stage adds what later stages and the reader need to `facts`. */
typedef Status StageRun(Speedrun *s, json_t *facts);
StageRun       stage_clean, stage_tokenizer, stage_tokens; /* stage_text.c */
StageRun       stage_split;                                /* stage_split.c */
StageRun       stage_recipe, stage_train, stage_evaluate, stage_export, stage_report; /* stage_model.c */

/* Opens or makes the directory and its state and takes its lock; the options, the folder and `stop` are set.
 * BAD_OPTION where a run of other options is begun there. */
Status speedrun_open(Speedrun *s);
void   speedrun_close(Speedrun *s);
/* Whether a run is begun in the directory. */
bool   speedrun_begun(const char *folder);
Status speedrun_save(const Speedrun *s);
/* The facts of a stage that is done; NULL: it is not. */
json_t *speedrun_facts(const Speedrun *s, const char *stage);
/* No stage is, in a directory that this start has made. */
bool speedrun_nothing_done(const Speedrun *s);
/* A number of them; NAN: there is none. */
double speedrun_number(const Speedrun *s, const char *stage, const char *name);
/* "directory/name", to be freed by nobody: it is one of few buffers that later calls use again. */
const char *speedrun_path(const Speedrun *s, const char *name);
/* Seconds that all stages have taken: training in all its starts, each other one, which starts over after a
 * stop, in its last. */
double speedrun_seconds(const Speedrun *s);

/* The tokenizer as the commands take it: a path, or `bytes`. */
const char *speedrun_tokenizer(const Speedrun *s);

/* Shows a command line of jotun as a shell takes it, runs it as a child process, waits, and frees the words.
 * A signal that asks this process to stop is passed on. The child ends when this process is killed. out: file
 * that takes its standard output, as a whole; NULL: it goes where ours goes. */
Status child_run(const Speedrun *s, WordList *words, const char *out);
#endif
