#ifndef CONVERT_FORMAT_H
#define CONVERT_FORMAT_H
/* What a reader of a format makes of a checkpoint, and the readers and writers of each format. Reading maps
 * files and parses their headers; weights are read when they are gathered. None of this communicates. */
#include "convert/foreign.h"
#include "convert/links.h"

typedef struct {
    ForeignFile file;
    Naming      naming;
    /* our options that describe the model, as one JSON object, {"num-layers": 12, ...}; owned */
    char       *options;
    char       *given;                     /* names of those that a person gave; owned; NULL: not known */
    char        tokenizer[1024];           /* argument of --tokenizer; "": the checkpoint names none */
    char        ids_left[200];             /* ids of special tokens that its vocabulary lacks; "": none */
    int64_t     step, samples;             /* of its training; -1: not known */
    char       *data; /* fingerprint of its data, a line for each file; owned; NULL: not known */
} ForeignModel;

/* What is said of ForeignModel.ids_left, behind the path. */
#define FOREIGN_IDS_LEFT "%s: its vocabulary has no id as large as %s, which is not taken over; correct config.json"

void   foreign_model_close(ForeignModel *model);         /* one of zeros is allowed */

/* A folder with config.json and model.safetensors, else model.safetensors.index.json and its files, as
 * Hugging Face's transformers writes it; without these pytorch_model.bin, else its index and files, which
 * torch.save wrote. file.note names those that are there and not read. BAD_FILE, naming key or tensor, where
 * something in it is not understood and could change what the model computes. A config takes at most 32 times
 * its bytes of memory, headers of safetensors files as store/safetensors.h says. */
Status hf_open(ForeignModel *model, const char *folder);
bool   hf_is_folder(const char *path);
/* BAD_FILE of a folder that is an adapter (LoRA), which has no model of its own. */
Status hf_refuse_adapter(const char *folder);
/* One of our checkpoints: a --save directory, whose newest is taken, or a step's own. */
Status jotun_open(ForeignModel *model, const char *path);
#endif
