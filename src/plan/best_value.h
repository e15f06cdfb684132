#ifndef PLAN_BEST_VALUE_H
#define PLAN_BEST_VALUE_H
/* The best value of a setting, of runs that differ in it alone. */
#include <stdbool.h>

/* index: of the run with the lowest loss. edge: -1 and 1 where it is the first or the last value, so that a
 * better one may lie outside; else 0. between: a parabola in the logarithm of the value through it and its
 * two neighbours has its lowest point at `value`, with `loss` there. */
typedef struct { int index, edge; bool between; double value, loss; } BestValue;
/* value [count]: rising; loss: not finite of runs that diverged. count above 0. Of equal losses the first one
 * is the best. index is -1 where no loss is finite. */
BestValue best_value(const double *value, const double *loss, int count);
#endif
