#ifndef COMPAT_ALCF_AGPT_INTERNAL_H
#define COMPAT_ALCF_AGPT_INTERNAL_H
/* The variables of train_aGPT_7B.sh while they become options. Shared by the files that read them and make
 * options of them (agpt.c) and that compute ranks, batch and steps (agpt_sizes.c). */
#include "compat/alcf/agpt.h"
#include "compat/dialects.h"

#define SCRIPT "train_aGPT_7B.sh"
enum {
#define HELD_ARGONNE(id, ...) V_##id,
#include "compat/dialects.def"
    VARIABLES,
    AGPT_TEXT = 1024
};
/* The rows HELD of agpt.def. what: "" where the row of the variable says it */
typedef struct { const char *names, *fallback, *what; } AgptVariable;
extern const AgptVariable agpt_variables[VARIABLES];

/* What the script always gives, or where the variable `without` is not set. */
typedef struct { const char *without; OptionIndex option; const char *value; } AgptFixed;
extern const AgptFixed agpt_fixed[];
extern const int       agpt_fixed_count;

enum { AGPT_SHAPES = 6 };
#define AGPT_SHAPE_7B "32", "32", "4096", "8", "11008", "4096"
extern const int agpt_shape[AGPT_SHAPES];                         /* HEADS, NLAYERS, ... */
extern const char *const agpt_default_shape[AGPT_SHAPES];         /* of MODEL_ARCH=7B */

/* name: as given, else the first of its row; text: NULL where there is none; given: by the environment; ours:
 * by an option of jotun, which is set already. */
typedef struct { const char *name, *text; bool given, ours; } AgptValue;
typedef struct {
    Options    *o;
    AgptFound   found;
    bool        known;                 /* `found` is what rank 0 has seen */
    AgptValue   value[VARIABLES];
    int64_t     world, data_parallel, samples; /* samples of the run; 0: TRAIN_ITERS says */
    TextList    refused;
    const char *name;                  /* of the run's folders */
    bool        lacks_data;
    const char *note; /* a line for a run that is not refused; NULL: none */
} Agpt;

/* A variable that cannot be taken, and why; all of them are named. */
__attribute__((format(printf, 2, 3)))
void        agpt_refuse(Agpt *a, const char *format, ...);
/* A text that lives as long as the options. */
__attribute__((format(printf, 2, 3)))
const char *agpt_held  (Agpt *a, const char *format, ...);
/* By the environment, or by an option of jotun. */
bool        agpt_given (const Agpt *a, int variable);
const Dialect *agpt_row(const char *name, const char *text);

/* The whole number of a variable, from 1 on and in the range of its option; 1 where it is refused. */
int64_t     agpt_number(Agpt *a, int variable);
/* The arithmetic of values that are numbers, each of which needs the one before. */
void        agpt_compute(Agpt *a);
/* sqrt(2 / (5 HIDDEN)) with six decimals, each step rounded down, as bc computes it there. */
const char *agpt_initial_deviation(Agpt *a);

/* Sets found->run, the folder of the run's checkpoints: `name` under checkpoints, or the newest run there
 * that differs from it in what `other` leaves open (a pattern of glob) and has steps left; and
 * found->finished. Returns whether another one was found. */
bool agpt_checkpoints(AgptFound *found, const char *name, const char *other);
#endif
