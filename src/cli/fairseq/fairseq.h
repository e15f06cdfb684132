#ifndef CLI_FAIRSEQ_FAIRSEQ_H
#define CLI_FAIRSEQ_FAIRSEQ_H
/* What the commands of fairseq say. */
#include "conf/options.h"

/* A line in the log: the same command as one of jotun's own. */
void fairseq_told(const Options *o);
/* The result of fairseq-eval-lm, in its lines. loss: the mean over `tokens`, in nats; examples: windows;
 * original: words of the original text, 0 where it is not known. */
void fairseq_evaluated(const Options *o, int64_t parameters, int64_t examples, int64_t tokens,
                       int64_t original, double seconds, double loss);
#endif
