#include "report/run_points.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/status.h"

static double mean_of(double a, double of_a, double b, double of_b)
{
    return isfinite(a) && isfinite(b) ? (a * of_a + b * of_b) / (of_a + of_b) : isfinite(b) ? b : a;
}

/* Throughput is tokens over seconds, so that a rate counts by the seconds it lasted, all else by steps. */
static bool is_rate(RunNumber n) { return n == RUN_SPEED || n == RUN_MFU; }

static double seconds_of(const RunPoint *p)
{
    double seconds = (double)p->steps * p->value[RUN_SECONDS];
    return seconds > 0 && isfinite(seconds) ? seconds : 0;
}

double run_points_mean(const RunPoint *point, int count, RunNumber n)
{
    double sum = 0, weights = 0, timed = 0;
    if (count == 1) return point->value[n];
    for (int i = 0; i < count && is_rate(n); i++)
        if (isfinite(point[i].value[n])) timed += seconds_of(&point[i]);
    for (int i = 0; i < count; i++) {
        double weight = timed > 0 ? seconds_of(&point[i]) : (double)point[i].steps;
        if (!isfinite(point[i].value[n])) continue;
        sum     += point[i].value[n] * weight;
        weights += weight;
    }
    return weights > 0 ? sum / weights : NAN;
}

/* b follows a. */
RunPoint run_points_joined(const RunPoint *a, const RunPoint *b)
{
    RunPoint joined = *b;
    bool timed = seconds_of(a) > 0 && seconds_of(b) > 0;
    joined.steps = a->steps + b->steps;
    for (int i = 0; i < RUN_NUMBERS; i++) {
        bool   rate = timed && is_rate((RunNumber)i);
        double of_a = rate ? seconds_of(a) : (double)a->steps, of_b = rate ? seconds_of(b) : (double)b->steps;
        joined.value[i] = mean_of(a->value[i], of_a, b->value[i], of_b);
        if (a->low[i]  <= b->low[i]  || isnan(b->low[i]))
            joined.low[i]  = a->low[i],  joined.low_at[i]  = a->low_at[i];
        if (a->high[i] >= b->high[i] || isnan(b->high[i]))
            joined.high[i] = a->high[i], joined.high_at[i] = a->high_at[i];
    }
    return joined;
}

/* Neighbours among the first `end` points become one where they have c->width steps or fewer. */
static void neighbours_join(RunCurve *c, int end)
{
    int kept = 0;
    for (int i = 0; i < c->points; i++) {
        const RunPoint *p = &c->point[i];
        RunPoint *last = kept > 0 ? &c->point[kept - 1] : NULL;
        if (last && i < end && last->steps + p->steps <= c->width) *last = run_points_joined(last, p);
        else c->point[kept++] = *p;
    }
    c->points = kept;
}

/* First by joining what was apart until now; longer points are made where that is not enough. No step is in
 * two points, so that the sum of all is at most the last step: doubling comes to an end. */
static void room_make(RunCurve *c)
{
    neighbours_join(c, c->points - RUN_POINTS_APART);
    while (c->points > RUN_POINTS_MOST - RUN_POINTS_APART) {
        c->width = 2 * (c->width ? c->width : c->point[0].steps);
        neighbours_join(c, c->points - RUN_POINTS_APART);
    }
}

void run_points_add(RunCurve *c, const RunPoint *point)
{
    if (!c->point) c->point = malloc(RUN_POINTS_MOST * sizeof *c->point);
    CHECK(c->point, "no memory for the points of a run");
    if (c->points == RUN_POINTS_MOST) room_make(c);
    int64_t before = c->points ? c->point[c->points - 1].step : 0;
    RunPoint *p = &c->point[c->points++];
    *p = *point;
    if (p->steps > p->step - before) p->steps = p->step - before;
}

/* p's steps after `to` are taken away; before: the point before it, NULL: it is the first. */
static void point_cut(RunPoint *p, const RunPoint *before, int64_t to)
{
    int64_t from = p->step - p->steps;
    double share = (double)(to - from) / (double)p->steps, begun = (double)from / (double)p->step;
    double tokens = before ? before->tokens : p->tokens * begun;
    double flops  = before ? before->flops  : p->flops * begun, hours = before ? before->hours : 0;
    p->tokens = tokens + (p->tokens - tokens) * share;
    p->flops  = flops  + (p->flops  - flops)  * share;
    p->hours  = hours  + (p->hours  - hours)  * share;
    p->step   = to;
    p->steps  = to - from;
    for (int i = 0; i < RUN_NUMBERS; i++) {
        if (p->low_at[i]  > (double)to) p->low[i]  = p->value[i], p->low_at[i]  = (double)to;
        if (p->high_at[i] > (double)to) p->high[i] = p->value[i], p->high_at[i] = (double)to;
    }
}

RunDropped run_points_drop(RunCurve *c, int64_t to)
{
    RunDropped all = { 0 };
    while (c->points > 0 && c->point[c->points - 1].step > to) {
        RunPoint *p = &c->point[c->points - 1];
        int64_t steps = p->step - to < p->steps ? p->step - to : p->steps;
        double seconds = (double)steps * p->value[RUN_SECONDS];
        all.steps   += steps;
        all.seconds += isfinite(seconds) ? seconds : 0;
        if (steps < p->steps) point_cut(p, c->points > 1 ? p - 1 : NULL, to);
        else c->points--;
    }
    return all;
}

void run_points_even(RunCurve *c)
{
    if (c->points && c->width < c->point[0].steps) c->width = c->point[0].steps;
    neighbours_join(c, c->points);
}
