#ifndef COMPAT_FAIRSEQ_FAIRSEQ_H
#define COMPAT_FAIRSEQ_FAIRSEQ_H
/* Command lines of fairseq-train and fairseq-eval-lm as options of jotun train and jotun eval perplexity. A
 * value has the source and the name that was typed, so that messages name it; what fairseq has by default, or
 * by --arch, is as strong as a file of --config. Names that fairseq does not have are jotun's own. */
#include <stdio.h>
#include "conf/words.h"

/* The arguments, while a command line is read; fairseq_close frees them. */
typedef struct Fairseq Fairseq;
void   fairseq_close (Fairseq *f);
/* Words of the arguments of fairseq-train or, where the command is FOR_EVAL, of fairseq-eval-lm, beside what
 * the environment says. BAD_USAGE, BAD_OPTION; BAD_FILE where the dictionary of the data cannot be read. */
Status fairseq_words  (Fairseq **f, OptionWords *words, const Options *so_far, int argc, char **argv);
/* What follows from the number of ranks and all other options: batch size, window of the loss scale, steps
 * of an epoch. ranks: of the launcher; 0: --distributed-world-size says. Of fairseq-eval-lm: what its
 * windows demand of the model. */
Status fairseq_derived(OptionWords *words, const Fairseq *f, const Options *so_far, int ranks);
/* An argument that is used together with others; fallback: its default, "" where it has none to show. */
typedef struct { const char *name, *value, *fallback, *help; } FairseqArgument;
int    fairseq_arguments(void);
/* The argument i, and whether FOR_TRAIN or FOR_EVAL uses it. */
bool   fairseq_argument (FairseqArgument *out, int i, CommandSet command);
#endif
