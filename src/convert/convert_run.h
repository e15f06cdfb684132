#ifndef CONVERT_CONVERT_RUN_H
#define CONVERT_CONVERT_RUN_H
/* A conversion under way: where it writes, in which type, and how it tells of its progress. The output is
 * written beside its place, under a hidden name, and renamed as a whole when it is complete and durable; so
 * an interrupted conversion leaves nothing at its place, and the next one to the same place removes what it
 * left. Memory is bounded by two windows, whatever the size of the model. */
#include <signal.h>
#include "convert/format.h"
#include "convert/plan.h"

#define CONVERT_RUN_FILE "output"

typedef struct {
    const ForeignModel *from;
    const Plan         *plan;
    const char         *output;            /* the path that is made */
    bool                single;            /* it is the file CONVERT_RUN_FILE of the folder `part` */
    bool                cast;              /* to `dtype`; else each tensor keeps its type */
    Dtype               dtype;
    /* Called after each window; may be NULL. */
    void              (*progress)(void *context, int64_t done, int64_t total);
    void               *context;
    const volatile sig_atomic_t *stop;     /* not 0: end with INTERRUPTED; may be NULL */
    /* set while it runs */
    char                part[1024];        /* the hidden name */
    int64_t             done, total;       /* bytes of weights */
} ConvertRun;

/* The type in which a tensor is written. */
Dtype  convert_run_dtype(const ConvertRun *c, const PlanTensor *tensor);
/* Makes the folder c->part. BAD_OPTION: something is at the output's place; IO_FAILED: its disk has no room
 * for the weights. */
Status convert_run_begin (ConvertRun *c);
/* After `status` of the writing: renames the output to its place, or removes it and returns the failure. */
Status convert_run_finish(ConvertRun *c, Status status);
/* Writes the file part/name of the tensors [first, first + count) of the plan, durably. bytes: of the file;
 * checksum: [count] XXH3 of each tensor's bytes; both may be NULL. */
Status convert_run_weights(ConvertRun *c, const char *name, int first, int count, int64_t *bytes,
                          uint64_t *checksum);
#endif
