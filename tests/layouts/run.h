#ifndef TESTS_LAYOUTS_RUN_H
#define TESTS_LAYOUTS_RUN_H
/* One layout trained by ranks that are threads of a child process, so that a rank which stops the job, or ranks
 * that wait for ever, are one layout's failure and not the end of the test. */
#include "layouts/compare.h"
#include "layouts/draw.h"
#include "layouts/generate.h"

enum { STEPS = 3, TRAFFIC_MOST = 1 << 16, FAILURE_MOST = 600 };
typedef struct Choices Choices;       /* choices.h */
/* Choices of experts that a run would have made otherwise than one rank: how many, and by how much the router preferred its
 * own, as a sum over the experts of a token; the largest of the first step, and of later ones. */
typedef struct { int64_t replaced; double largest[2]; } ChoiceGap;
typedef struct {
    const char *words;                /* options of jotun train, and --ranks */
    const char *data;                 /* the token file's prefix */
    const char *save, *load;          /* directories of checkpoints; NULL: none */
    const char *beside;               /* a directory that has the same step: weights are compared; NULL: none */
    Choices *choices;                 /* of experts: written by the first run with it, taken by the others; NULL: each its own */
    bool states;                      /* and optimizer states */
    int  steps;                       /* STEPS or fewer */
    int  save_at;                     /* saved also after this step; 0: at the end alone */
    bool leaks;                       /* loses memory, and has no words for where: of the test of this test */
    bool killed;                      /* by SIGKILL after the steps, before the last save */
    int  transport;                   /* draw_size of TRANSPORT */
    int  seconds;                     /* until it counts as a deadlock */
} LayoutRun;
typedef struct {
    double loss[STEPS], norm[STEPS];
    double valid;                     /* loss of a validation batch after the steps */
    int32_t ids[GENERATED];           /* what follows prompts after the steps, where the head is on the last stage */
    Difference weights;               /* of weights, or of states too, from those of `beside` */
    /* copies.h: parts of weights that ranks hold in copies, equal to the bit; elements equal to rounded master weights */
    int     copies;
    int64_t rounded;
    ChoiceGap gap;                    /* of all ranks */
    /* of the last step, a line each: rank comm verb calls bytes; with experts rank load layer copies copies ... */
    char   traffic[TRAFFIC_MOST];
    char   failure[FAILURE_MOST];     /* "": none */
} Result;

/* On memory that children share. */
Result *result_new (void);
void    result_free(Result *result);
#define LEAKS_TOLD "it leaks memory, as LeakSanitizer says above"
/* result->failure says what went wrong: an option or file that is refused, memory that differs from the dry run,
 * copies of weights that differ, a job that stopped or did not end; under AddressSanitizer, a leak. */
void    run_layout(Result *result, const LayoutRun *what);
#endif
