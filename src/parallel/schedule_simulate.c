/* The duration of a schedule and each stage's idle time (the pipeline bubble), from the times of its
 * computations and messages: a schedule_replay with costs. */
#include "parallel/schedule.h"

#include <stdlib.h>

ScheduleCost schedule_cost(double f, double b, double w)
{
    return (ScheduleCost){ .of = { [FORWARD] = f, [BACKWARD_INPUT] = b, [BACKWARD_WEIGHT] = w } };
}

/* The schedules have passed schedule_check, so the replay cannot fail. */
double *schedule_ends(const Schedule *all, int stages, const ScheduleCost *cost)
{
    double *end;
    CHECK(schedule_replay(all, stages, cost, &end) == OK, "%s", fail_text());
    return end;
}

/* idle = the end of the last stage - the sum of this stage's rows */
double schedule_simulate(const Schedule *all, int stages, const ScheduleCost *cost, double *idle)
{
    double *end = schedule_ends(all, stages, cost), last = 0;
    for (int i = 0, row = 0; i < stages; i++) {
        row += all[i].rows;
        if (all[i].rows > 0 && last < end[row - 1]) last = end[row - 1];
    }
    free(end);
    for (int i = 0; i < stages; i++) {
        idle[i] = last;
        for (int r = 0; r < all[i].rows; r++)
            idle[i] -= cost->row ? cost->row(cost, &all[i], &all[i].row[r]) : cost->of[all[i].row[r].verb];
    }
    return last;
}
