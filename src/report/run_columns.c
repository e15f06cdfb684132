#include "report/run_columns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const run_over_names[OVERS] = { "step", "tokens", "FLOPs", "hours" };

/* A mean whose weights fall by half every few points to both sides, so that the line does not lag behind: as
 * many as 1 in 100 of all. Ends have fewer points, not values of their own. */
static void smooth(double *out, const double *value, int count)
{
    double keep = exp2(-1 / fmax(1, 0.01 * count)), sum = 0, weight = 0, before[COLUMNS_MOST],
           weights[COLUMNS_MOST];
    for (int i = 0; i < count; i++) {
        bool known = isfinite(value[i]);
        sum    = keep * (sum + (known ? value[i] : 0));
        weight = keep * (weight + known);
        before[i]  = sum / keep;
        weights[i] = weight / keep;
    }
    sum = weight = 0;
    for (int i = count; i-- > 0;) {
        bool known = isfinite(value[i]);
        out[i] = known ? (before[i] + sum) / (weights[i] + weight) : NAN;
        sum    = keep * (sum + (known ? value[i] : 0));
        weight = keep * (weight + known);
    }
}

static void row_put(RunColumns *c, int row, const RunPoint *p, int count)
{
    const RunPoint *last = &p[count - 1];
    c->over[OVER_STEPS][row]  = (double)last->step;
    c->over[OVER_TOKENS][row] = last->tokens;
    c->over[OVER_FLOPS][row]  = last->flops;
    c->over[OVER_HOURS][row]  = last->hours;
    RunPoint joined = p[0];
    for (int i = 1; i < count; i++) joined = run_points_joined(&joined, &p[i]);
    for (int n = 0; n < RUN_NUMBERS; n++) {
        c->value[n][row]   = run_points_mean(p, count, (RunNumber)n);
        c->low[n][row]     = joined.low[n];
        c->high[n][row]    = joined.high[n];
        c->low_at[n][row]  = joined.low_at[n];
        c->high_at[n][row] = joined.high_at[n];
    }
}

RunColumns *run_columns_make(const RunRecord *run, int most)
{
    RunColumns *c = calloc(1, sizeof *c);
    CHECK(c, "no memory for the columns of a chart");
    int each = (run->curve.points + most - 1) / most;
    for (int i = 0; i < run->curve.points; i += each) {
        int count = run->curve.points - i < each ? run->curve.points - i : each;
        row_put(c, c->count++, &run->curve.point[i], count);
        for (int k = i; k < i + count; k++) c->joined |= count > 1 || run->curve.point[k].steps > 1;
    }
    for (int n = 0; n < RUN_NUMBERS; n++) smooth(c->smooth[n], c->value[n], c->count);
    return c;
}

int run_columns_evaluations(double over[OVERS][COLUMNS_MOST], double loss[COLUMNS_MOST],
                            double bits[COLUMNS_MOST], const RunRecord *run, const char *split, int most)
{
    int all = 0, count = 0, seen = 0;
    for (int i = 0; i < run->evaluations; i++) all += !strcmp(run->evaluation[i].split, split);
    int each = (all + most - 1) / most;
    for (int i = 0; i < run->evaluations; i++) {
        const RunEvaluation *e = &run->evaluation[i];
        if (strcmp(e->split, split) != 0 || (++seen % each != 0 && seen != all) || count == COLUMNS_MOST)
            continue;
        over[OVER_STEPS][count]  = (double)e->step;
        over[OVER_TOKENS][count] = e->tokens;
        over[OVER_FLOPS][count]  = run->flops_full > 0 ? e->tokens * run->flops_full : NAN;
        over[OVER_HOURS][count]  = e->hours;
        loss[count] = e->loss;
        bits[count] = e->bits;
        count++;
    }
    return count;
}

int run_columns_splits(const char *name[SPLITS_MOST], const RunRecord *run)
{
    int count = 0;
    for (int i = 0; i < run->evaluations && count < SPLITS_MOST; i++) {
        bool known = false;
        for (int k = 0; k < count; k++) known |= !strcmp(name[k], run->evaluation[i].split);
        if (!known) name[count++] = run->evaluation[i].split;
    }
    return count;
}

bool run_columns_log(const double *value, int count, double times)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < count; i++) {
        if (!isfinite(value[i])) continue;
        if (value[i] <= 0) return false;
        low  = fmin(low,  value[i]);
        high = fmax(high, value[i]);
    }
    return high > times * low;
}

bool run_columns_has(const double *value, int count)
{
    for (int i = 0; i < count; i++) if (isfinite(value[i])) return true;
    return false;
}
