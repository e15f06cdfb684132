#ifndef DATA_BLEND_SPEC_H
#define DATA_BLEND_SPEC_H
/* Which pairs a run reads, and how much of each: the words of --data-path, or a list in a file */
#include <stdbool.h>
#include "base/status.h"

typedef struct { char *prefix, *corpus; double weight; } BlendPart;         /* corpus NULL: of none */
typedef struct { BlendPart *part; int count; bool weighed; } BlendSpec;       /* weighed: weights were given, and stand as they were */

/* As Megatron takes it: an even number of words, numbers at the odd places: W P W P ...; else prefixes alone */
Status blend_spec_words(BlendSpec *list, const char *const *words, int count);
/* ALCF's: a line is `weight prefix corpus`; empty lines are passed over, .bin at the end of a prefix too. At most 64 MiB and
 * 32,766 data sets; memory is the file's bytes once and 100 a data set, beside their names. */
Status blend_spec_file (BlendSpec *list, const char *path);
void   blend_spec_close(BlendSpec *list);
/* So that they sum to 1. In a row, or as numpy sums, whose last bit decides ties. A weight that is not above 0 is refused */
typedef enum { SUM_IN_A_ROW, SUM_NUMPY } WeightSum;
Status weights_normalize(double *weight, int count, WeightSum how);
#endif
