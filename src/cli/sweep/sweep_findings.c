/* What the losses of a sweep say. Over sizes: a scaling law with its confidence, how well it would have
 * predicted the largest size, the measured loss of the check's depth, and the next size. Of another option:
 * the best value, and where a parabola through it and its neighbours has its lowest point. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "chart/chart.h"
#include "cli/run_state.h"
#include "cli/sweep/sweep.h"
#include "plan/best_value.h"

enum { CONFIDENCE_SEED = 1 };

/* ---- runs that differ in the seed alone ---- */

/* Whether both have the same values of all axes but the seed's and `open`, -1 for none. */
static bool alike(const Sweep *sweep, const SweepRun *a, const SweepRun *b, int open)
{
    for (int i = 0; i < sweep->axes; i++)
        if (i != sweep->seed_axis && i != open && a->at[i] != b->at[i]) return false;
    return a->check == b->check;
}

/* The mean over seeds; infinite where one of them diverged or failed. */
static double mean_loss(const Sweep *sweep, const SweepRun *of)
{
    double sum = 0;
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        if (!alike(sweep, run, of, -1)) continue;
        sum += run->state == SWEEP_DONE && isfinite(run->loss) ? run->loss : INFINITY;
        count++;
    }
    return count ? sum / count : INFINITY;
}

/* Of the runs with this value of an axis the one with the lowest mean loss; of all runs where axis is -1.
 * NULL: none has a loss. */
static const SweepRun *best_run(const Sweep *sweep, int axis, int value)
{
    const SweepRun *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        if (run->check || (axis >= 0 && run->at[axis] != value)) continue;
        double loss = mean_loss(sweep, run);
        if (loss < least) least = loss, best = run;
    }
    return best;
}

/* ---- the axis over which models grow ---- */

/* Depth, or another option each of whose values makes a model of another size; -1: none. */
static int size_axis(const Sweep *sweep)
{
    if (sweep->depth_axis >= 0) return sweep->depth_axis;
    for (int a = 0; a < sweep->axes; a++) {
        bool grows = sweep->axis[a].count >= SCALING_COEFFICIENTS && a != sweep->seed_axis;
        int64_t before = 0;
        for (int i = 0; i < sweep->runs && grows; i++) {
            const SweepRun *run = &sweep->run[i];
            bool other = false;
            for (int b = 0; b < sweep->axes; b++) other |= b != a && run->at[b] != 0;
            if (other) continue;
            grows = run->parameters > before;
            before = run->parameters;
        }
        if (grows) return a;
    }
    return -1;
}

static int by_size(const void *a, const void *b)
{
    const ScalingPoint *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* The runs of the best setting of each value of the axis, in the order of their sizes, which is another one
 * where a second list makes models grow too. The caller frees them. */
static ScalingPoint *law_points(int *count, const Sweep *sweep, int axis)
{
    ScalingPoint *point = malloc((size_t)sweep->runs * sizeof *point);
    CHECK(point, "no memory for %d runs", sweep->runs);
    *count = 0;
    for (int v = 0; v < sweep->axis[axis].count; v++) {
        const SweepRun *best = best_run(sweep, axis, v);
        for (int i = 0; i < sweep->runs && best; i++)
            if (alike(sweep, &sweep->run[i], best, -1))
                point[(*count)++] = (ScalingPoint){ (double)sweep->run[i].parameters, sweep->run[i].loss };
    }
    qsort(point, (size_t)*count, sizeof *point, by_size);
    return point;
}

/* ---- the law ---- */

/* The largest size, predicted by the law of the others; points are in the order of sizes. */
static void show_hindsight(const ScalingPoint *point, int count)
{
    ScalingLaw law;
    int others = count;
    double sum = 0;
    while (others > 0 && point[others - 1].size == point[count - 1].size) sum += point[--others].loss;
    if (!others || scaling_law_fit(&law, point, others) != OK) return;
    double measured = sum / (count - others), predicted = scaling_law_at(&law, point[count - 1].size);
    printf("in hindsight: the law of the smaller sizes predicts %.4f for the largest one, which has %.4f "
           "(%+.2f %%)\n",
           predicted, measured, 100 * (predicted / measured - 1));
}

static void show_range(const ScalingConfidence *c)
{
    if (c) printf(" (95 %%: %.4f to %.4f)", c->loss.low, c->loss.high);
}

/* NULL where there is no confidence to be had; the reason is in fail_text(). */
static const ScalingConfidence *confidence_at(ScalingConfidence *out, const ScalingLaw *law,
                                              const ScalingPoint *point, int count, double size)
{
    Status status = scaling_law_confidence(out, law, point, count, size, SWEEP_DRAWS, CONFIDENCE_SEED);
    return status == OK ? out : NULL;
}

/* The run of --check-depth, and the mean of its loss over seeds; NULL: there is none. */
static const SweepRun *check_run(double *measured, const Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++) {
        if (!sweep->run[i].check) continue;
        *measured = mean_loss(sweep, &sweep->run[i]);
        return isfinite(*measured) ? &sweep->run[i] : NULL;
    }
    return NULL;
}

static void show_check(const Sweep *sweep, const ScalingLaw *law, const ScalingPoint *point, int count)
{
    double measured;
    ScalingConfidence c;
    const SweepRun *run = check_run(&measured, sweep);
    if (!run) return;
    double size = (double)run->parameters, predicted = scaling_law_at(law, size);
    printf("check: depth %lld, %lld parameters, %.2f times the largest of the law: predicted %.4f",
           (long long)run->depth, (long long)run->parameters, size / point[count - 1].size, predicted);
    show_range(confidence_at(&c, law, point, count, size));
    printf(", measured %.4f: the prediction is off by %+.2f %%\n", measured,
           100 * (predicted / measured - 1));
}

/* ---- what to do next ---- */

static void show_command(const SweepRun *run)
{
    printf("$ jotun train");
    word_list_write(stdout, &run->words);
    printf(" --save DIR\n");
}

/* Seconds that a run of so many FLOPs takes at the speed of the largest run. */
static double seconds_for(const Sweep *sweep, double flops)
{
    const SweepRun *largest = NULL;
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        if (run->state == SWEEP_DONE && run->seconds > 0 && (!largest || run->flops > largest->flops))
            largest = run;
    }
    return largest ? flops * largest->seconds / largest->flops : 0;
}

/* A model of about four times the parameters of the largest: the cube of the depth counts. */
static Status show_next(const Sweep *sweep, const ScalingLaw *law, const ScalingPoint *point, int count)
{
    char took[24];
    ScalingConfidence c;
    const SweepRun *largest = best_run(sweep, sweep->depth_axis, sweep->axis[sweep->depth_axis].count - 1);
    SweepRun next = { .depth = 0 };
    if (!largest) return OK;
    memcpy(next.at, largest->at, sizeof next.at);
    int64_t base = sweep->own->sweep_check ? sweep->own->sweep_check : largest->depth;
    next.depth = (int64_t)ceil((double)base * cbrt(4.0) - 0.5);
    if (next.depth <= base) next.depth = base + 1;
    log_mute(true);
    Status status = sweep_run_plan(&next, sweep);
    log_mute(false);
    if (status != OK) {
        printf("next: depth %lld cannot be trained with these options: %s\n", (long long)next.depth,
               fail_text());
    } else {
        printf("next: depth %lld, %lld parameters, %lld tokens: predicted %.4f", (long long)next.depth,
               (long long)next.parameters, (long long)next.tokens,
               scaling_law_at(law, (double)next.parameters));
        show_range(confidence_at(&c, law, point, count, (double)next.parameters));
        printf(", in about %s at the speed of the largest run\n",
               log_time(took, seconds_for(sweep, next.flops)));
        show_command(&next);
    }
    sweep_run_free(&next);
    return OK;
}

/* c: NULL where there is no confidence; fits: redrawn series that have a law; size: the largest of the law's
 * runs */
static Status write_law(const Sweep *sweep, const ScalingLaw *law, const ScalingConfidence *c, int fits,
                        double size, int count)
{
    char   path[1024];
    double measured;
    TRY(path_join(path, sweep->own->sweep_dir, "law.json"));
    json_t *said = json_pack("{s:f, s:f, s:f, s:i}", "floor", law->floor, "scale", law->scale, "exponent",
                             law->exponent, "runs", count);
    if (count > SCALING_COEFFICIENTS) {
        json_object_set_new(said, "redrawn", json_integer(SWEEP_DRAWS));
        json_object_set_new(said, "fits", json_integer(fits));
    }
    if (c) {
        json_object_set_new(said, "floor_95", json_pack("[f, f]", c->floor.low, c->floor.high));
        json_object_set_new(said, "exponent_95", json_pack("[f, f]", c->exponent.low, c->exponent.high));
    }
    const SweepRun *run = check_run(&measured, sweep);
    if (run)
        json_object_set_new(said, "check",
            json_pack("{s:I, s:f, s:f, s:f}", "parameters", (json_int_t)run->parameters, "times_the_largest",
                      (double)run->parameters / size, "predicted",
                      scaling_law_at(law, (double)run->parameters), "measured", measured));
    Status status = state_write(path, said);
    json_decref(said);
    return status;
}

/* ---- the picture ----
 * The losses of a sweep as a picture: over the parameters with the curve of the law, or over the values of
 * the first option. Both axes are logarithmic where their numbers are above 0. A model that checks the law
 * has the other colour. */

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

static Status plot(const Sweep *sweep, const ScalingLaw *law, int sizes)
{
    char path[1024];
    TRY(path_join(path, sweep->own->sweep_dir, "sweep.svg"));
    int first = sweep->seed_axis == 0 && sweep->axes > 1 ? 1 : 0, runs = sweep->runs;
    double *number = calloc((size_t)runs * 3, sizeof *number), curve[2][CURVE];
    double *place = number, *fitted = number + runs, *check = number + 2 * runs;
    char (*text)[LABEL] = calloc((size_t)runs, sizeof *text), title[LABEL];
    const char **label = calloc((size_t)runs, sizeof *label);
    const char *below = sizes >= 0 ? "parameters" : sweep->axis[first].name;
    ChartSeries series[SERIES] = {
        { .name = "law", .x = curve[0], .y = curve[1], .count = CURVE },
        { .name = "runs", .x = place, .y = fitted, .count = runs, .look = CHART_POINTS, .label = label },
        { .name = "check of the law", .x = place, .y = check, .count = runs, .look = CHART_POINTS,
          .label = label, .style = 1 } };
    Chart chart = { .title = title, .x_name = below, .series = law ? series : series + 1,
                    .count = law ? SERIES : SERIES - 1, .log_x = true, .log_y = true };
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
    if (law) curve_fill(curve[0], curve[1], law, place, runs);
    Status status = chart_file(&chart, path);
    free(number);
    free(text);
    free(label);
    return status;
}

/* ---- all of it ---- */

static Status find_law(const Sweep *sweep, int axis)
{
    int count;
    ScalingLaw law;
    ScalingConfidence c;
    ScalingPoint *point = law_points(&count, sweep, axis);
    Status status = scaling_law_fit(&law, point, count);
    if (status != OK) {
        printf("\nno law: %s\n", fail_text());
        free(point);
        return plot(sweep, NULL, axis);
    }
    log_line("redraws the series %d times for the confidence of its law", SWEEP_DRAWS);
    const ScalingConfidence *known = confidence_at(&c, &law, point, count, point[count - 1].size);
    printf("\nlaw: loss = %.4f + (%.4g / parameters)^%.4f\n", law.floor, law.scale, law.exponent);
    if (known)
        printf("95 %% of the %d of %d redrawn series that have a law: floor %.4f to %.4f, exponent %.4f to "
               "%.4f\n", c.fits, SWEEP_DRAWS, c.floor.low, c.floor.high, c.exponent.low, c.exponent.high);
    else printf("no confidence: %s\n", fail_text());
    show_hindsight(point, count);
    show_check(sweep, &law, point, count);
    if (axis == sweep->depth_axis) status = show_next(sweep, &law, point, count);
    if (status == OK) status = write_law(sweep, &law, known, c.fits, point[count - 1].size, count);
    free(point);
    return status == OK ? plot(sweep, &law, axis) : status;
}

/* ---- the best value ---- */

/* Of an axis, among the runs that are as `best` in all others. */
static void show_best(const Sweep *sweep, int a, const SweepRun *best)
{
    double loss[SWEEP_VALUES_MAX];
    char value[32];
    const SweepAxis *axis = &sweep->axis[a];
    for (int v = 0; v < axis->count; v++) loss[v] = INFINITY;
    for (int i = 0; i < sweep->runs; i++)
        if (alike(sweep, &sweep->run[i], best, a))
            loss[sweep->run[i].at[a]] = mean_loss(sweep, &sweep->run[i]);
    BestValue b = best_value(axis->number, loss, axis->count);
    printf("best --%s: %s, loss %.4f", axis->name, axis->value[b.index], loss[b.index]);
    bool number = isfinite(axis->number[0]);
    if (number && b.edge)
        printf("; it is the %s value of the list: a %s one may be better",
               b.edge < 0 ? "smallest" : "largest", b.edge < 0 ? "smaller" : "larger");
    if (b.between) {
        snprintf(value, sizeof value, "%.3g", b.value);
        printf("; a parabola through it and its neighbours is lowest at %s, loss %.4f", value, b.loss);
    }
    printf("\n");
}

static void find_best(const Sweep *sweep, int sizes)
{
    const SweepRun *best = best_run(sweep, -1, 0);
    int others = 0;
    for (int a = 0; a < sweep->axes; a++) others += a != sizes && a != sweep->seed_axis;
    if (!others) return;
    printf("\n");
    if (!best) printf("no run has a loss: there is no best value\n");
    for (int v = 0; sizes >= 0 && v < sweep->axis[sizes].count; v++) {
        const SweepRun *of = best_run(sweep, sizes, v);
        if (of)
            printf("%s=%s: best is %s, loss %.4f\n", sweep->axis[sizes].name, sweep->axis[sizes].value[v],
                   of->name, mean_loss(sweep, of));
    }
    for (int a = 0; a < sweep->axes && best; a++)
        if (a != sizes && a != sweep->seed_axis) show_best(sweep, a, best);
    if (best && sizes < 0) show_command(best);
}

Status sweep_findings(const Sweep *sweep)
{
    int sizes = size_axis(sweep), others = 0;
    find_best(sweep, sizes);
    Status status = OK;
    for (int a = 0; a < sweep->axes; a++) others += a != sweep->seed_axis;
    if (sizes >= 0) status = find_law(sweep, sizes);
    else if (others) status = plot(sweep, NULL, -1);
    else printf("\n%d seeds: mean loss %.4f\n", sweep->runs, mean_loss(sweep, &sweep->run[0]));
    if (status == OK) printf("\n%s has results.csv%s\n", sweep->own->sweep_dir,
                             others ? " and sweep.svg" : "");
    return status;
}
