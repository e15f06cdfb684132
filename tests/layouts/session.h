#ifndef TESTS_LAYOUTS_SESSION_H
#define TESTS_LAYOUTS_SESSION_H
/* What the layouts of a run of the test share: the runs of one rank that they are compared with, bounds, and the
 * largest differences so far. */
#include <stdio.h>
#include "layouts/coverage.h"
#include "layouts/run.h"

enum { REFERENCES = 800, KINDS = 2, TYPES = 6, OPTIMIZERS = 19, DIFFERENCES = 5 };
/* A run of one rank, of these options; its checkpoint is in `folder`. */
typedef struct { char words[WORDS_MOST], folder[128]; Result *result; Choices *choices; } Reference;
typedef struct {
    const Coverage *coverage;
    const char *data, *program;
    int   seed, seconds;                              /* seconds: until a layout counts as a deadlock */
    Reference reference[REFERENCES];
    int   references;
    FILE *traffic;                                    /* what each rank sent; NULL: nobody asks */
    /* the largest differences, and of how many runs, by MLP (dense or experts), type and optimizer */
    double worst[KINDS][TYPES][OPTIMIZERS][DIFFERENCES];
    int   judged[KINDS][TYPES][OPTIMIZERS];
    long  copies, rounded;                           /* sums of those of Result */
    ChoiceGap gap[TYPES];                             /* by type: their sum, the largest */
    bool  *resumes;                                   /* by layout: session_choose_resumed; owned by main */
    int   resumed;
} Session;

/* Runs it where it has not been run yet. */
const Reference *session_reference(Session *session, const Draw *d);
/* NULL, or what of `mine` is out of the bounds of docs/numerics.md for its type, in `why`. Steps first .. STEPS - 1
 * of one rank are those of mine. */
const char *session_judge(Session *session, const Draw *d, const Result *mine, const Result *one, int first,
                          char why[FAILURE_MOST]);
void session_print_worst(const Session *session);

/* resume.c: which of the first `run` layouts are killed and resumed: of many every fifth, and so many that every
 * value is in one of them, but of the dimensions that change no state (overlap, transport); of few those that have
 * most of these values. Returns how many of the values none of them has. */
int session_choose_resumed(Session *session, int run);
/* Layout `number`, whose run `mine` left a checkpoint in `folder`, is killed after a checkpoint and
 * resumed: the same bits. Resumed under another layout that computes the same, or on one rank: within bounds.
 * NULL, or what is wrong, in `why`. */
const char *session_resume(Session *session, int number, const Reference *one, const Result *mine, const char *folder,
                           char why[FAILURE_MOST]);
#endif
