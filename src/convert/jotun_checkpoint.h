#ifndef CONVERT_JOTUN_CHECKPOINT_H
#define CONVERT_JOTUN_CHECKPOINT_H
/* Writing a checkpoint of this program from another one's. */
#include "convert/convert_run.h"
#include "store/checkpoint_contents.h"

/* Writes a --save directory with one step at c->output: weights, and moments if the plan has them
 * (store/checkpoint_writer.h). Needs c->from, plan, output, cast and dtype; the plan is TO_OURS. */
Status jotun_write(ConvertRun *c, const ModelConfig *config, const CheckpointState *state);
#endif
