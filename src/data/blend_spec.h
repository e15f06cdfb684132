#ifndef DATA_BLEND_SPEC_H
#define DATA_BLEND_SPEC_H
/* Which token files a run reads and how much of each: the words of --data-path, or a list in a file. */
#include <stdbool.h>
#include "base/status.h"

/* Owned; corpus NULL: in no corpus. begin and end are shares of its sequences; end 0: it has no part of its
 * own. */
typedef struct { char *prefix, *corpus; double weight, begin, end; } BlendPart;
/* weighted: the weights are as given; else 1. */
typedef struct { BlendPart *part; int count, room; bool weighted; } BlendSpec;

/* Megatron's rule: an even number of words with numbers at the even positions is W P W P ..., else all are
 * prefixes. BAD_OPTION if some weights are numbers and others are not. */
Status blend_spec_words(BlendSpec *list, const char *const *words, int count);
/* ALCF's format: each line is `weight prefix corpus`. Empty lines are skipped, and .bin at the end of a
 * prefix is removed. At most 64 MiB and 32,766 data sets; memory is the file's bytes once, and 100 bytes
 * per data set besides the names. */
Status blend_spec_file (BlendSpec *list, const char *path);
/* BigScience's format: `NAME: WEIGHT START:END PREFIX, WEIGHT START:END PREFIX ...`. The weight of a single
 * data set has no meaning. */
Status blend_spec_group(BlendSpec *list, const char *group);
void   blend_spec_close(BlendSpec *list);
/* Divides the weights by their sum, which is added up in order or as numpy.sum does it: the last bit
 * decides ties in a blend. BAD_OPTION for a weight that is not above 0. */
typedef enum { SUM_IN_A_ROW, SUM_NUMPY } WeightSum;
Status weights_normalize(double *weight, int count, WeightSum how);
#endif
