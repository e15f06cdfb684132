#include "report/run_figures.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
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

/* A band that comes near 0 would make a logarithmic axis of the loss end far below the curve. */
static void loss_figure(const Figures *f)
{
    enum { CURVES = 2 + SPLITS_MOST };
    double      (*over)[OVERS][COLUMNS_MOST] = malloc(SPLITS_MOST * sizeof *over);
    double      (*loss)[COLUMNS_MOST] = malloc(SPLITS_MOST * sizeof *loss), bits[COLUMNS_MOST];
    const char *split[SPLITS_MOST];
    char        name[SPLITS_MOST][96];
    ChartSeries series[CURVES];
    CHECK(over && loss, "no memory for the chart of losses");
    int count = curves_of(series, f->columns, RUN_LOSS, "training loss");
    int splits = run_columns_splits(split, f->run);
    for (int i = 0; i < splits; i++) {
        int rows = run_columns_evaluations(over[i], loss[i], bits, f->run, split[i], COLUMNS_MOST);
        snprintf(name[i], sizeof name[i], "%s loss", !strcmp(split[i], "valid") ? "validation" : split[i]);
        series[count++] = (ChartSeries){.name  = name[i],
                                        .x     = over[i][OVER_STEPS],
                                        .y     = loss[i],
                                        .count = rows,
                                        .style = 1 + i,
                                        .look  = CHART_MARKS};
    }
    Chart chart = { .title = "Loss", .x_name = "step", .series = series, .count = count,
                    .log_y = run_columns_log(f->columns->value[RUN_LOSS], f->columns->count, 8) };
    figure_put(f, &chart, "loss",
               f->columns->joined ? "Mean over the steps of a point; the band is from the least to the "
                                    "largest of them. Nats for a token."
                                  : "Nats for a token.");
    free(over);
    free(loss);
}

static void bits_figure(const Figures *f)
{
    double      over[OVERS][COLUMNS_MOST], loss[COLUMNS_MOST], bits[COLUMNS_MOST];
    const char *split[SPLITS_MOST];
    if (run_columns_splits(split, f->run) == 0) return;
    int rows = run_columns_evaluations(over, loss, bits, f->run, split[0], COLUMNS_MOST);
    if (!run_columns_has(bits, rows)) return;
    ChartSeries series = {.name  = "bits per byte",
                          .x     = over[OVER_STEPS],
                          .y     = bits,
                          .count = rows,
                          .style = 1,
                          .look  = CHART_MARKS};
    figure_put(f, &(Chart){ .title = "Bits per byte of validation text", .x_name = "step", .series = &series,
                            .count = 1 }, "bits", NULL);
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
};

static void number_figures(const Figures *f)
{
    const RunColumns *c = f->columns;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
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
    loss_figure(&f);
    bits_figure(&f);
    number_figures(&f);
    fputs("</div>\n", out);
    free(f.columns);
}
