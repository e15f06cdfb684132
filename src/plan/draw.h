#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H
/* Drawings of pipeline schedules: a line per stage, a column per unit of time. Forward, backward_input and
 * backward_weight of a chunk take one unit each, messages none. `all` has the schedules of all `stages`
 * stages, which have passed schedule_check. With several chunks the text has a second line
 * for each stage, the chunk of each computation. Both functions return malloc'ed text, which the caller
 * frees. */
#include "parallel/schedule.h"

char *draw_schedule    (const Schedule *all, int stages);     /* plain text; its first line is the legend */
/* SVG: a colour for each verb, later chunks paler */
char *draw_schedule_svg(const Schedule *all, int stages);
#endif
