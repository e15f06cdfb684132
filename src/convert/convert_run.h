#ifndef CONVERT_CONVERT_RUN_H
#define CONVERT_CONVERT_RUN_H
/* A conversion under way: where it writes, in which type, and how it tells of its progress. The output is
 * written beside its place, under a hidden name, and renamed as a whole when it is complete and durable; so
 * an interrupted conversion leaves nothing at its place, and the next one to the same place removes what it
 * left. Memory is bounded by a few windows, whatever the size of the model. */
#include <signal.h>
#include "convert/format.h"
#include "convert/plan.h"
#include "store/checkpoint_contents.h"

#define CONVERT_RUN_FILE "output"

/* What is NaN or infinite in the type that it is written in. first: the first tensor with such elements,
 * which has `in_first` of them; NULL: none has. */
typedef struct { const PlanTensor *first, *last; int64_t in_first, elements; int tensors; } NotFinite;

typedef struct {
    const ForeignModel *from;
    Plan               *plan;              /* the types of its tensors are those that are written */
    const char         *output;            /* the path that is made */
    bool                single;            /* it is the file CONVERT_RUN_FILE of the folder `part` */
    /* Called after each window; may be NULL. */
    void              (*progress)(void *context, int64_t done, int64_t total);
    void               *context;
    const volatile sig_atomic_t *stop;     /* not 0: end with INTERRUPTED; may be NULL */
    /* set while it runs */
    char                part[1024];        /* the hidden name */
    int                 lock;              /* descriptor that holds the lock of the folder of that name; -1 */
    int64_t             done, total;       /* bytes of weights, as they are written */
    NotFinite           not_finite;
} ConvertRun;

/* Elements [first, first + count) of a tensor, in the type of the plan: gathered, or, where
 * `mapped`, as they lie in the file that is read. */
typedef struct {
    const PlanTensor *tensor;
    int64_t           first, count;
    const void       *data;
    bool              mapped;
} ConvertWindow;
typedef Status ConvertPut(void *context, const ConvertWindow *window);

/* For a writer that makes the output's place itself. BAD_OPTION: something is there already, other than what
 * a conversion that was killed has left. */
Status convert_run_place (const ConvertRun *c);
/* Counts the bytes of the weights. IO_FAILED: the disk of `folder` has no room for them. */
Status convert_run_count (ConvertRun *c, const char *folder);
/* Makes the folder c->part. BAD_OPTION: something is at the output's place, or another conversion writes
 * there; IO_FAILED: its disk has no room for the weights. After a failure nothing is left. */
Status convert_run_begin (ConvertRun *c);
/* Whether a signal asks to end: INTERRUPTED. */
Status convert_run_stopped(const ConvertRun *c);
/* After `status` of the writing: renames the output to its place, or removes it and returns the failure. */
Status convert_run_finish(ConvertRun *c, Status status);
/* Gives the windows of the tensors [first, first + count) of the plan to `put`, in order. A thread verifies
 * and gathers the next windows meanwhile, and counts in c->not_finite what of them is not finite. What is put
 * may belong to a tensor that turns out to be damaged: then this returns BAD_FILE after it. */
Status convert_run_windows(ConvertRun *c, int first, int count, ConvertPut *put, void *context);
/* Writes a --save directory with one step at c->output: weights, and moments if the plan has them
 * (store/checkpoint_writer.h; jotun_checkpoint.c). Needs c->from, plan and output; the plan is TO_OURS. */
Status jotun_write(ConvertRun *c, const ModelConfig *config, const CheckpointState *state);
/* A file of these windows. layout: where `put` writes each, by convert_run_write; its own. */
typedef struct { int fd; char path[1024]; void *layout; } ConvertFile;
typedef struct { const void *data; int64_t bytes, at; } ConvertBytes;
Status convert_run_write  (const ConvertFile *file, const void *data, int64_t bytes, int64_t at);
/* Writes the file part/name durably: `others` ranges of bytes, as its header, and the windows, by
 * put(ConvertFile *, window). */
Status convert_run_file   (ConvertRun *c, const char *name, const ConvertBytes *other, int others, int first,
                           int count, ConvertPut *put, void *layout);
/* Such a file of safetensors, of the tensors [first, first + count) of the plan. */
Status convert_run_weights(ConvertRun *c, const char *name, int first, int count);
#endif
