#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H
/* --split: which sequences of a token file are for training, validation and test. */
#include <stdbool.h>
#include "base/status.h"
#include <stdint.h>

typedef enum { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLITS } SplitKind;
/* A data set of a run is a split, or SPLITS + i where validation has several sets: number i of them. */
enum { VALID_SETS_MAX = 32, DATA_SETS = SPLITS + VALID_SETS_MAX };
static inline SplitKind set_split(int set) { return set < SPLITS ? (SplitKind)set : SPLIT_VALID; }
/* How borders are rounded: Megatron-LM rounds cumulative sums of weights; its DeepSpeed forks round each
 * part and shift all borders by the excess. */
typedef enum { SPLIT_SUMS, SPLIT_PARTS } SplitRounding;

const char *split_name(SplitKind kind);                /* train, valid, test */
/* The range [begin, end) of a split. `split` is up to three weights over `sequences`, "969,30,1"; NULL:
 * all of them. Halves are rounded to even, as Python does. BAD_OPTION if the weights cannot be read. */
Status split_range(int64_t *begin, int64_t *end, const char *split, SplitKind kind, SplitRounding rounding,
                   int64_t sequences);
#endif
