#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H
/* Pictures of pipeline schedules: a line a stage, a column a unit of time; forward, input backward and weight
 * backward of a chunk take one unit each, messages none. Both return malloc'ed text, which the caller frees; the
 * schedules are those of all stages, and pass schedule_check. */
#include "parallel/schedule.h"

char *draw_schedule    (const Schedule *all, int stages);     /* plain text; its first line says how to read it */
char *draw_schedule_svg(const Schedule *all, int stages);     /* coloured by verb, later chunks paler */
#endif
