#ifndef COMPAT_FAIRSEQ_FAIRSEQ_INTERNAL_H
#define COMPAT_FAIRSEQ_FAIRSEQ_INTERNAL_H
/* The arguments of fairseq's commands that are used together, once they are read. Shared by the files that
 * read them (fairseq.c) and that make options of them (fairseq_train.c, fairseq_batches.c,
 * fairseq_eval.c). */
#include "compat/fairseq/fairseq.h"
#include "conf/conf.h"

/* An --arch. parallel: one of fairseq's model-parallel architectures, whose dictionary is padded. */
typedef struct {
    const char *name;
    int64_t     layers, hidden, ffn, heads;
    const char *dropout, *activation;
    bool        parallel;
} Architecture;

enum {
#define HELD_FAIRSEQ_LINE(field, ...) HELD_##field,
#include "compat/dialects.def"
    FAIRSEQ_HELD,
    FREQUENCIES_MAX = 40                 /* of --update-freq */
};

/* A field for each row HELD; typed: the argument as typed, NULL where nobody gave it. */
struct Fairseq {
#define HELD_FAIRSEQ_LINE(field, names, text, help, kind, ...) Option##kind field;
#include "compat/dialects.def"
    const char *typed[FAIRSEQ_HELD];
    const char *data;                   /* the folder of fairseq-preprocess */
    const Architecture *architecture;
    int64_t micro;                      /* samples of a micro-batch */
    int64_t freq[FREQUENCIES_MAX];      /* [freqs] micro-batches of a step, by epoch; the last one stays */
    int     freqs;
    OptionWords texts;                  /* owns them */
};

/* The rows HELD of fairseq.def, by HELD_...; offset: of the field in Fairseq. */
typedef struct {
    const char *names, *text, *help; OptionKind kind; double low, high; size_t offset; CommandSet commands;
} FairseqHeld;
extern const FairseqHeld fairseq_held[FAIRSEQ_HELD];
/* A value that follows from `from`: an argument, or fairseq's defaults. */
__attribute__((format(printf, 4, 5)))
Status fairseq_give      (Options *o, OptionIndex option, const char *from, const char *format, ...);
/* The value of the argument HELD_..., by the name that was typed; where none was, fairseq's default. */
__attribute__((format(printf, 5, 6)))
Status fairseq_give_typed(Options *o, const Fairseq *f, OptionIndex option, int argument, const char *format,
                          ...);
bool fairseq_is_file(const char *path);                    /* FILE.pt by its name */
/* Whether FILE.pt, or FILE-model_part-0.pt, is there. */
bool fairseq_own    (const char *path);
/* Whether a --load is one of fairseq's own, or the folder of a run or of a step of jotun's. */
bool fairseq_has_checkpoint(const char *load);
/* "FOLDER/file" of the data; returns out. */
const char *fairseq_path (char out[1200], const Fairseq *f, const char *file);
/* BAD_FILE where DIR/NAME.idx, which the argument HELD_... says, is not there. */
Status fairseq_subset    (const Fairseq *f, const char *name, int argument);
/* Samples that a rank computes at once, of --batch-size and `max_tokens` (0: not given). */
Status fairseq_micro     (int64_t *micro, const Options *o, const Fairseq *f, int64_t sequence,
                          int64_t max_tokens);
/* Batch and length of fairseq-train; what needs the number of ranks comes later (fairseq_derive). */
Status fairseq_give_batch(Options *o, Fairseq *f);

/* All options of a command, from what was read. */
Status fairseq_train_complete(Options *o, Fairseq *f);
Status fairseq_eval_complete (Options *o, Fairseq *f);
/* "fairseq-train", or "fairseq-eval-lm" */
const char *fairseq_command(const Options *o);
/* What its windows demand of the model, whose checkpoint is read later. */
void   fairseq_eval_demand   (Options *o, const Fairseq *f);
#endif
