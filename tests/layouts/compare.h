#ifndef TESTS_LAYOUTS_COMPARE_H
#define TESTS_LAYOUTS_COMPARE_H
/* The weights and the optimizer states of two checkpoints. */
#include <stdbool.h>
#include "base/status.h"

/* off: the largest difference of an element so far, whose name is in `worst`; NaN where one is not a number or both
 * are infinite, and then it stays NaN. */
typedef struct { double off; char worst[128]; } Difference;

/* Of the newest checkpoints in the two directories. states: optimizer states too. BAD_SHAPE where a file or a
 * tensor is in one of them alone, or where a tensor has another size or type. */
Status checkpoints_compare(Difference *d, const char *mine, const char *other, bool states);
/* The same of two directories that hold the files. */
Status weight_files_compare(Difference *d, const char *mine, const char *other, bool states);
#endif
