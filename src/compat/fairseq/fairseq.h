#ifndef COMPAT_FAIRSEQ_FAIRSEQ_H
#define COMPAT_FAIRSEQ_FAIRSEQ_H
/* Command lines of fairseq-train and fairseq-eval-lm as options of jotun train and jotun eval perplexity. A
 * value has the source and the name that was typed, so that messages name it; what fairseq has by default, or
 * by --arch, is as strong as a file of --config. Names that fairseq does not have are jotun's own. */
#include <stdio.h>
#include "conf/options.h"

/* Of fairseq-train or, where o->command is FOR_EVAL, of fairseq-eval-lm. BAD_USAGE, BAD_OPTION; BAD_FILE
 * where the dictionary of the data cannot be read. */
Status import_fairseq(Options *o, int argc, char **argv);
/* What follows from the number of ranks: batch size, window of the loss scale, steps of an epoch. Of
 * fairseq-eval-lm: whether its windows fit the model. Does nothing of other commands. */
Status fairseq_derive(Options *o);
/* "fairseq-train", or "fairseq-eval-lm" */
const char *fairseq_command(const Options *o);
/* The message of fairseq-eval-lm where --path is no checkpoint. */
Status fairseq_no_checkpoint(const Options *o);
/* An argument that is used together with others; fallback: its default, "" where it has none to show. */
typedef struct { const char *name, *value, *fallback, *help; } FairseqArgument;
int    fairseq_arguments(void);
/* The argument i, and whether FOR_TRAIN or FOR_EVAL uses it. */
bool   fairseq_argument (FairseqArgument *out, int i, CommandSet command);
/* The command line of jotun that says the same, without its end. */
void   fairseq_show  (FILE *out, const Options *o);
#endif
