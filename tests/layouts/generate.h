#ifndef TESTS_LAYOUTS_GENERATE_H
#define TESTS_LAYOUTS_GENERATE_H
/* What a trained layout continues prompts by, greedily: the tokens of one rank, in double. */
#include "train/trainer.h"

enum { GENERATED = 5 * 4 };             /* tokens of each of the prompts */
/* On every rank. The trainer's memory is used beyond what its dry run counted, but for the session's. */
Status layout_generate(Trainer *trainer, int32_t ids[GENERATED]);
#endif
