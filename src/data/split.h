#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H
/* --split: which sequences of a pair train, validate and test */
#include <stdbool.h>
#include "base/status.h"
#include <stdint.h>

typedef enum { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLITS } SplitKind;
/* How borders are rounded: Megatron-LM rounds sums of weights; its DeepSpeed forks round each part and shift all borders by what is over */
typedef enum { SPLIT_SUMS, SPLIT_PARTS } SplitRounding;

const char *split_word(SplitKind kind);                /* train, valid, test */
/* "969,30,1": up to three weights over `sequences`; NULL: all of them are this one. Halves go to the even number. */
Status split_range(int64_t *begin, int64_t *end, const char *split, SplitKind kind, SplitRounding rounding, int64_t sequences);
#endif
