#include "report/run_figures.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "report/html.h"

/* A page for one run, with what its charts are drawn from. */
typedef struct { FILE *out; const RunRecord *run; RunColumns *columns; int number; } Figures;

static void figure_put(const Figures *f, const Chart *chart, const char *name, const char *note)
{
    char id[64];
    snprintf(id, sizeof id, "run%d-%s", f->number, name);
    html_figure(f->out, chart, id, note);
}

/* Of few points a mean over neighbours tells nothing. */
enum { SMOOTHED_FROM = 16 };

/* The values as they are, and a smoothed line above them where there are many. Returns how many curves. */
static int curves_of(ChartSeries series[2], const RunColumns *c, RunNumber n, const char *name)
{
    bool smoothed = c->count >= SMOOTHED_FROM;
    series[0]     = (ChartSeries){.name  = name,
                                  .x     = c->over[OVER_STEPS],
                                  .y     = c->value[n],
                                  .count = c->count,
                                  .low   = c->joined ? c->low[n] : NULL,
                                  .high  = c->joined ? c->high[n] : NULL,
                                  .low_x  = c->joined ? c->low_at[n] : NULL,
                                  .high_x = c->joined ? c->high_at[n] : NULL,
                                  .look  = smoothed                   ? CHART_PALE
                                           : c->count < SMOOTHED_FROM ? CHART_MARKS
                                                                      : CHART_LINE};
    series[1] =
        (ChartSeries){.name = "smoothed", .x = c->over[OVER_STEPS], .y = c->smooth[n], .count = c->count};
    return smoothed ? 2 : 1;
}

/* The evaluations of all splits, whose colours and dashes are the same in both charts. */
typedef struct {
    int    splits, rows[SPLITS_MOST];
    char   name[SPLITS_MOST][96];
    double over[SPLITS_MOST][OVERS][COLUMNS_MOST], loss[SPLITS_MOST][COLUMNS_MOST],
           bits[SPLITS_MOST][COLUMNS_MOST];
} Evaluations;

static Evaluations *evaluations_make(const RunRecord *run)
{
    const char  *split[SPLITS_MOST];
    Evaluations *e = calloc(1, sizeof *e);
    CHECK(e, "no memory for the evaluations of a chart");
    e->splits = run_columns_splits(split, run);
    for (int i = 0; i < e->splits; i++) {
        e->rows[i] = run_columns_evaluations(e->over[i], e->loss[i], e->bits[i], run, split[i], COLUMNS_MOST);
        snprintf(e->name[i], sizeof e->name[i], "%s", !strcmp(split[i], "valid") ? "validation" : split[i]);
    }
    return e;
}

static ChartSeries evaluations_series(const Evaluations *e, int split, const char *name, const double *value)
{
    return (ChartSeries){ .name = name, .x = e->over[split][OVER_STEPS], .y = value, .count = e->rows[split],
                          .style = 1 + split, .look = CHART_MARKS };
}

/* A band that comes near 0 would make a logarithmic axis of the loss end far below the curve. */
static void loss_figure(const Figures *f, const Evaluations *e)
{
    char        name[SPLITS_MOST][104];
    ChartSeries series[2 + SPLITS_MOST];
    int count = curves_of(series, f->columns, RUN_LOSS, "training loss");
    for (int i = 0; i < e->splits; i++) {
        snprintf(name[i], sizeof name[i], "%s loss", e->name[i]);
        series[count++] = evaluations_series(e, i, name[i], e->loss[i]);
    }
    Chart chart = { .title = "Loss", .x_name = "step", .series = series, .count = count,
                    .log_y = run_columns_log(f->columns->value[RUN_LOSS], f->columns->count, 8) };
    figure_put(f, &chart, "loss",
               f->columns->joined ? "Mean over the steps of a point; the band is from the least to the "
                                    "largest of them. Nats for a token."
                                  : "Nats for a token.");
}

/* A single curve is named by the chart; of several each has its split's name in the legend. */
static void bits_figure(const Figures *f, const Evaluations *e)
{
    ChartSeries series[SPLITS_MOST];
    int count = 0;
    for (int i = 0; i < e->splits; i++)
        if (run_columns_has(e->bits[i], e->rows[i]))
            series[count++] = evaluations_series(e, i, e->name[i], e->bits[i]);
    if (count == 0) return;
    if (count == 1) series[0].name = "bits per byte";
    figure_put(f, &(Chart){ .title = "Bits per byte of validation text", .x_name = "step", .series = series,
                            .count = count }, "bits", NULL);
}

/* log: where the largest value is so many times the least one the axis is logarithmic; 0: never. */
static const struct { RunNumber number; const char *id, *title, *note; double log; bool smooth; } rows[] = {
    { RUN_LR,     "lr",     "Learning rate", NULL, 0, false },
    { RUN_NORM,   "norm",   "Gradient norm", "Before it is clipped.", 30, true },
    { RUN_SPEED,  "speed",  "Tokens per second", "Of all ranks, evaluations and saves not counted.", 0, true },
    { RUN_MFU,    "mfu",    "Model FLOPs utilisation (MFU)", "Share of the machine's peak, attention counted in full.", 0, true },
    { RUN_MEMORY, "memory", "Resident memory", "Bytes of the process of rank 0.", 0, false },
    { RUN_WAITED, "waited", "Waiting for data", "Seconds of a step, on rank 0.", 0, false },
    { RUN_SCALE,  "scale",  "Loss scale", NULL, 30, false },
    { RUN_EXPERT_LOAD, "expert-load", "Load of the busiest expert", "Tokens of the busiest expert over the mean of all; 1 is even.", 30, true },
    { RUN_DROPPED, "dropped", "Dropped tokens", "Share of the routed tokens that no expert had room for.", 0, true },
    { RUN_BALANCE, "balance", "Load-balancing loss", "Not part of the training loss above.", 0, true },
    { RUN_Z,       "z",       "Router z-loss", "Not part of the training loss above.", 0, true },
};

static void number_figures(const Figures *f)
{
    const RunColumns *c = f->columns;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ChartSeries series[2];
        RunNumber n = rows[i].number;
        if (!run_columns_has(c->value[n], c->count)) continue;
        int count = curves_of(series, c, n, run_numbers[n].title);
        if (!rows[i].smooth) count = 1, series[0].look = c->count < SMOOTHED_FROM ? CHART_MARKS : CHART_LINE;
        Chart chart = { .title = rows[i].title, .x_name = "step", .series = series, .count = count,
                        .log_y = rows[i].log > 0 && run_columns_log(c->value[n], c->count, rows[i].log) };
        figure_put(f, &chart, rows[i].id, rows[i].note);
    }
}

void run_figures_put(FILE *out, const RunRecord *run, int number)
{
    Figures f = { out, run, run_columns_make(run, COLUMNS_MOST), number };
    fputs("<div class=\"charts\">\n", out);
    Evaluations *evaluations = evaluations_make(run);
    loss_figure(&f, evaluations);
    bits_figure(&f, evaluations);
    free(evaluations);
    number_figures(&f);
    fputs("</div>\n", out);
    free(f.columns);
}
