/* The losses of a sweep as a picture: over the parameters with the curve of the law, or over the values of
 * the first option. Both axes are logarithmic where their numbers are above 0. A model that checks the law
 * has the other colour. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "chart/chart.h"
#include "cli/sweep/sweep.h"

enum { CURVE = 64, LABEL = 256, SERIES = 3 };

/* What is on the axis of a run: its parameters, its value of the first option, or the number of the value. */
static double place_of(const Sweep *sweep, const SweepRun *run, int sizes)
{
    int first = sweep->seed_axis == 0 && sweep->axes > 1 ? 1 : 0;
    if (sizes >= 0) return (double)run->parameters;
    double number = sweep->axis[first].number[run->at[first]];
    return isfinite(number) ? number : run->at[first] + 1;
}

/* The law between the smallest and the largest size. */
static void curve_fill(double x[CURVE], double y[CURVE], const ScalingLaw *law, const double *place, int runs)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < runs; i++) low = fmin(low, place[i]), high = fmax(high, place[i]);
    for (int i = 0; i < CURVE; i++) {
        x[i] = low * pow(high / low, (double)i / (CURVE - 1));
        y[i] = scaling_law_at(law, x[i]);
    }
}

Status sweep_plot(const Sweep *sweep, const ScalingLaw *law, int sizes, const char *path)
{
    int first = sweep->seed_axis == 0 && sweep->axes > 1 ? 1 : 0, runs = sweep->runs, count = 0;
    double *number = calloc((size_t)runs * 3, sizeof *number), curve[2][CURVE];
    double *place = number, *fitted = number + runs, *check = number + 2 * runs;
    char (*text)[LABEL] = calloc((size_t)runs, sizeof *text), title[LABEL];
    const char **label = calloc((size_t)runs, sizeof *label);
    const char *below = sizes >= 0 ? "parameters" : sweep->axis[first].name;
    ChartSeries series[SERIES];
    Chart chart = { .title = title, .x_name = below, .series = series, .log_x = true, .log_y = true };
    CHECK(number && text && label, "no memory for the picture of %d runs", runs);
    for (int i = 0; i < runs; i++) {
        const SweepRun *run = &sweep->run[i];
        place[i]  = place_of(sweep, run, sizes);
        fitted[i] = run->check ? NAN : run->loss;
        check[i]  = run->check ? run->loss : NAN;
        snprintf(text[i], LABEL, "%s: %.6f", run->name, run->loss);
        label[i] = text[i];
        chart.log_x &= place[i] > 0 || !isfinite(run->loss);
        chart.log_y &= run->loss > 0 || !isfinite(run->loss);
    }
    snprintf(title, sizeof title, "%s loss by %s",
             sweep->own->sweep_loss.value == CHOICE_sweep_loss_validation ? "validation" : "training", below);
    if (law) {
        curve_fill(curve[0], curve[1], law, place, runs);
        series[count++] = (ChartSeries){ .name = "law", .x = curve[0], .y = curve[1], .count = CURVE };
    }
    series[count++] = (ChartSeries){ .name = "runs", .x = place, .y = fitted, .count = runs,
                                     .look = CHART_POINTS, .label = label };
    series[count++] = (ChartSeries){ .name = "check of the law", .x = place, .y = check, .count = runs,
                                     .look = CHART_POINTS, .label = label, .style = 1 };
    chart.count = count;
    Status status = chart_file(&chart, path);
    free(number);
    free(text);
    free(label);
    return status;
}
