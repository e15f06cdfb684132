#ifndef CONVERT_FAIRSEQ_INTERNAL_H
#define CONVERT_FAIRSEQ_INTERNAL_H
/* A checkpoint of fairseq while it is read. Shared by the files that read its weights (fairseq_read.c), its
 * arguments (fairseq_model.c) and its optimizer's states (fairseq_states.c). */
#include <jansson.h>
#include "convert/foreign.h"
#include "convert/torch/torch_file.h"

enum { FAIRSEQ_PARTS_MAX = 1024, FAIRSEQ_NAME = 200 };

typedef struct {
    ForeignFile *file;
    json_t      *options;
    char         path[1024];                  /* of the part that is read */
    int          parts;
    TorchFile   *part;                        /* [parts], owned */
} FairseqFile;

static inline const PickleValue *fairseq_root(const FairseqFile *f, int part)
{
    return f->part[part].pickle.root;
}

/* Whether an argument of the model is there and on. */
bool   fairseq_is_on       (const FairseqFile *f, const char *name);
/* The options of the model, but the size of its vocabulary. BAD_FILE: no arguments, a model not built. */
Status fairseq_options_read(FairseqFile *f);

/* A tensor beside the weights, or one of them: element `offset` of `tensor` is its first; shape and strides
 * are those of `weight` where `flat` (all parameters one behind the other), else the tensor's own. */
typedef struct { ForeignKind kind; const PickleTensor *tensor; int64_t offset; bool flat; } FairseqView;
/* Appends the tensor `key`, whose parts are those views of the model's parts: view[0 .. f->parts). */
Status fairseq_tensor_add(FairseqFile *f, const char *key, const PickleTensor *weight,
                          const FairseqView *view);
/* What holds no weights, and the output layer that is the token embedding. */
bool   fairseq_is_unused(const FairseqFile *f, const char *key);

/* The states of its Adam, where they belong to the parameters one by one or all in one vector; others are
 * left, with the reason (ForeignFile.states_unread). After the weights, before foreign_finish. */
Status fairseq_states_read(FairseqFile *f);
#endif
