#include "logs/history.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "chart/chart.h"
#include "chart/curve_bins.h"
#include "chart/metrics_reader.h"

Status history_open(History *h, const char *folder, int64_t resumed)
{
    char path[1024];
    *h = (History){ 0 };
    snprintf(h->folder, sizeof h->folder, "%s", folder);
    TRY(folder_make(folder));
    TRY(path_join(path, folder, "metrics.csv"));
    TRY(metrics_file_open(&h->csv, "--history", path, resumed));
    TRY(path_join(path, folder, "metrics.jsonl"));
    return metrics_file_open(&h->jsonl, "--history", path, resumed);
}

void history_add(History *h, const LogRecord *record)
{
    metrics_file_add(&h->csv, record);
    metrics_file_add(&h->jsonl, record);
}

/* ---- pictures ---- */

/* column: of metrics.csv, with columns /max and /min where it differs between ranks; split: whose rows */
static const struct { const char *name, *column, *split, *title; } pictures[] = {
    { "loss",              "loss",              "train", "loss" },
    { "validation_loss",   "loss",              "valid", "validation loss" },
    { "lr",                "lr",                "train", "learning rate" },
    { "grad_norm",         "grad_norm",         "train", "norm of gradients" },
    { "seconds",           "seconds",           "train", "seconds of a step" },
    { "data_seconds",      "data_seconds",      "train", "seconds of waiting for data" },
    { "tokens_per_second", "tokens_per_second", "train", "tokens per second" },
    { "memory_bytes",      "memory_bytes/mean", "train", "memory of a process in bytes" },
};
enum { PICTURES = COUNT(pictures) };

/* One picture of the table at `table`: the curve, and the band between the least and the largest value, over
 * ranks and over the steps of one bin. */
static Status draw_picture(const char *folder, const char *table, int picture)
{
    double      x[CURVE_BINS], y[CURVE_BINS], low[CURVE_BINS], high[CURVE_BINS];
    char        name[128], path[1024], title[128], min[64], max[64], *text = NULL;
    size_t      bytes;
    const char *column = pictures[picture].column, *split = pictures[picture].split;
    bool        trained = !strcmp(split, "train");
    CurveBins   bins;
    MetricsReader reader;
    MetricsLine line;
    snprintf(min, sizeof min, "%.*s/min", (int)strcspn(column, "/"), column);
    snprintf(max, sizeof max, "%.*s/max", (int)strcspn(column, "/"), column);
    const char *key[] = { "step", column, min, max };
    curve_bins_begin(&bins);
    TRY(metrics_reader_open(&reader, table, key, 4));
    while (metrics_reader_next(&reader, &line)) {
        double *v = line.value;
        if (strcmp(line.split, trained ? "" : split) != 0) continue;
        curve_bins_add(&bins, (CurvePoint){ v[0], v[1], trained ? v[2] : NAN, trained ? v[3] : NAN });
    }
    metrics_reader_close(&reader);
    if (bins.count == 0) return OK;
    snprintf(title, sizeof title, "%s%s", pictures[picture].title,
             bins.ranks ? ": mean over ranks, least and largest" : "");
    int count = curve_bins_read(&bins, x, y, low, high);
    ChartSeries series = { .name = pictures[picture].title, .x = x, .y = y, .low = bins.band ? low : NULL,
                           .high = bins.band ? high : NULL, .count = count };
    Chart chart = { .title = title, .x_name = "step", .series = &series, .count = 1 };
    snprintf(name, sizeof name, "plots/%s.svg", pictures[picture].name);
    TRY(path_join(path, folder, name));
    TRY(chart_file(&chart, path));
    snprintf(name, sizeof name, "plots/%s.txt", pictures[picture].name);
    TRY(path_join(path, folder, name));
    FILE *out = open_memstream(&text, &bytes);
    if (out) chart_letters(out, &chart);
    Status status = out && fclose(out) == 0 ? file_write_whole(path, text, bytes)
                                            : fail(NO_MEMORY, "no memory for %s", path);
    free(text);
    return status;
}

static Status draw(const char *folder)
{
    char   path[1024];
    Status status = OK;
    TRY(path_join(path, folder, "plots"));
    TRY(folder_make(path));
    TRY(path_join(path, folder, "metrics.csv"));
    for (int i = 0; i < PICTURES && status == OK; i++) status = draw_picture(folder, path, i);
    return status;
}

Status history_close(History *h, Status status, const char *saved)
{
    bool open = h->csv.file.open;
    status = metrics_file_close(&h->csv, status, saved);
    status = metrics_file_close(&h->jsonl, status, saved);
    return open && status == OK ? draw(h->folder) : status;
}
