#ifndef CLI_EVAL_LINES_H
#define CLI_EVAL_LINES_H
#include "conf/options.h"

/* The result of an evaluation in lines of --log-format epochs. loss: the mean over `tokens`, in nats;
 * examples: windows; original: words of the original text, 0 where it is not known. */
void epoch_evaluated(const Options *o, int64_t parameters, int64_t examples, int64_t tokens, int64_t original,
                     double seconds, double loss);
#endif
