#ifndef STORE_CHECKPOINT_CONTENTS_H
#define STORE_CHECKPOINT_CONTENTS_H
/* What a checkpoint contains, as plain structs: logical tensors, the files that hold them, and the position
 * of training. The other headers of this directory share them, so they are below all of them. */
#include <stdbool.h>
#include <stdint.h>
#include "data/split.h"
#include "tensor/step_state.h"
#include "tensor/tensor.h"

/* A whole tensor of the model or of the optimizer, independent of how ranks shard it. dim[dims..3] is not
 * read. The name is UTF-8 without control characters and ends with a zero. */
typedef struct { char name[96]; int dims; int64_t dim[4]; Dtype dtype; } LogicalTensor;

/* The tensors of one file; name: "block_0003.safetensors". The array belongs to whoever fills it. */
typedef struct { char name[64]; int tensors; LogicalTensor *tensor; } CheckpointFile;

/* One file of a tokenizer that a checkpoint carries: its name in the step's folder tokenizer/, its size and
 * the XXH3 of its bytes. data: those bytes, for saving; NULL after reading. */
typedef struct { char name[64]; int64_t bytes; uint64_t checksum; const void *data; } TokenizerCopy;
enum { TOKENIZER_COPIES = 12 };

/* The tokenizer of a run: the argument of --tokenizer and its fingerprint (text/tokenizer.h). Both NULL:
 * none; name "": it was not UTF-8 and was left out. copies: of its files; 0: it has none, as `bytes`, or the
 * checkpoint is of a version that kept the name only. folder: the argument is the folder of the copies, not
 * copy[0] alone. */
typedef struct {
    const char   *name, *fingerprint;
    bool          folder;
    int           copies;
    TokenizerCopy copy[TOKENIZER_COPIES];
} TokenizerRecord;

/* What a checkpoint has beside weights: the states of the optimizer (and the scales of 8-bit inputs); the
 * position of a run: steps, samples, updates, loss scale, data. */
enum { CHECKPOINT_STATES = 1, CHECKPOINT_POSITION = 2 };

/* Of the losses of steps that were not skipped, with weights that fall (train/spike.h). count 0: none. */
typedef struct { int64_t count; double mean, variance; } LossStatistics;

/* Of the evaluations of the validation split: the lowest loss, and how many there were since. lowest 0: there
 * was none. */
typedef struct { double lowest; int64_t since; } EvaluationLosses;

/* Of what follows a step, that which a signal prevented and the resumed run does first: the evaluation of
 * data set i is bit i (data/split.h), samples of text are the bit above all of them. */
enum { DUE_SAMPLES = DATA_SETS, DUE_BITS };

typedef struct {
    unsigned    lacks;                     /* of these bits those that it does not have; 0: it has both */
    int64_t     step, samples, updates;    /* steps done, samples consumed, optimizer updates done */
    int64_t     updated_samples;           /* of the steps that were updates, as the schedules count them */
    int64_t     step_samples;              /* as which each of these steps counted; 0: as its own */
    uint64_t    seed;                      /* of initialisation, data order and dropout */
    /* Texts are for saving; after reading, checkpoint_facts alone has them. */
    const char *options;                   /* the resolved options as one JSON object */
    const char *given;                     /* names of those that a person gave; NULL: not known */
    const char *data_fingerprint;          /* of the run's token files, one per line; NULL: none */
    TokenizerRecord tokenizer;
    LossScale   loss_scale;                /* scale 0: losses are not scaled */
    /* delayed scaling of 8-bit inputs: what the scales make of amax, of x and w, and of dy; 0: none */
    double      fp8_largest[2];
    /* of optimizers that average weights: sum of squares of learning rates, the largest one; 0: none */
    double      average[2];
    /* of optimizers that take estimates: the update, from 1, that the last one was taken before; 0: none */
    int64_t     estimated;
    LossStatistics losses;
    EvaluationLosses evaluations;
    double      valid_loss;                /* of the evaluation after this step; 0: there was none */
    uint64_t    due;                       /* bits of what should still follow this step */
    const char *kernels;                   /* family of kernels that computed the steps; NULL: not known */
} CheckpointState;
#endif
