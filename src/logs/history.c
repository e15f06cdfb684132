#include "logs/history.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "logs/plot.h"

enum { FIELDS_MAX = METRICS_COLUMNS_MAX, FIELD = 64 };

History history_none(void)
{
    const LogFile closed = { .fd = LOG_FILE_CLOSED };
    return (History){ .csv = { .file = closed }, .jsonl = { .file = closed } };
}

Status history_open(History *h, const char *folder, int64_t resumed)
{
    char path[1024];
    *h = history_none();
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
enum { PICTURES = sizeof pictures / sizeof pictures[0] };

/* The fields of a line, which is ended at each comma. Returns how many there are. */
static int fields_of(char *field[FIELDS_MAX], char *line)
{
    int count = 0;
    for (char *next = line; next && count < FIELDS_MAX; count++) {
        field[count] = next;
        next = strchr(next, ',');
        if (next) *next++ = 0;
    }
    return count;
}

/* The column of "loss", or with an ending that of "loss/max"; -1: there is none. */
static int column_of(char *const *header, int columns, const char *name, const char *ending)
{
    char whole[FIELD];
    size_t letters = *ending ? strcspn(name, "/") : strlen(name);
    snprintf(whole, sizeof whole, "%.*s%s", (int)letters, name, ending);
    for (int i = 0; i < columns; i++)
        if (strcmp(header[i], whole) == 0) return i;
    return -1;
}

/* The number of a field; NAN where there is none. */
static double number_in(char *const *field, int count, int column)
{
    char *end;
    if (column < 0 || column >= count || !*field[column]) return NAN;
    double value = strtod(field[column], &end);
    return *end ? NAN : value;
}

/* One picture of the table in `in`, which is read from its first line. */
static Status draw_picture(const char *folder, FILE *in, int picture)
{
    char  *line = NULL, *header_line = NULL, *header[FIELDS_MAX], *field[FIELDS_MAX], name[128], path[1024];
    size_t room = 0, header_room = 0;
    int    columns = 0, value = -1, low = -1, high = -1, split = -1;
    Plot   plot;
    plot_begin(&plot, pictures[picture].title);
    rewind(in);
    if (getline(&header_line, &header_room, in) > 0) {
        header_line[strcspn(header_line, "\n")] = 0;
        columns = fields_of(header, header_line);
        value = column_of(header, columns, pictures[picture].column, "");
        split = column_of(header, columns, "split", "");
        bool ranks = strcmp(pictures[picture].split, "train") == 0;
        if (ranks) low  = column_of(header, columns, pictures[picture].column, "/min");
        if (ranks) high = column_of(header, columns, pictures[picture].column, "/max");
    }
    while (value >= 0 && getline(&line, &room, in) > 0) {
        line[strcspn(line, "\n")] = 0;
        int count = fields_of(field, line);
        if (split < 0 || split >= count || strcmp(field[split], pictures[picture].split) != 0) continue;
        plot_add(&plot, (PlotPoint){ number_in(field, count, 0), number_in(field, count, value),
                                     number_in(field, count, low), number_in(field, count, high) });
    }
    free(line);
    free(header_line);
    if (plot.count == 0) return OK;
    snprintf(name, sizeof name, "plots/%s.svg", pictures[picture].name);
    TRY(path_join(path, folder, name));
    TRY(plot_svg(&plot, path));
    snprintf(name, sizeof name, "plots/%s.txt", pictures[picture].name);
    TRY(path_join(path, folder, name));
    return plot_text(&plot, path);
}

static Status draw(const char *folder)
{
    char   path[1024];
    Status status = OK;
    TRY(path_join(path, folder, "plots"));
    TRY(folder_make(path));
    TRY(path_join(path, folder, "metrics.csv"));
    FILE *in = fopen(path, "re");
    if (!in) return fail(BAD_FILE, "--history: %s cannot be read", path);
    for (int i = 0; i < PICTURES && status == OK; i++) status = draw_picture(folder, in, i);
    fclose(in);
    return status;
}

Status history_close(History *h, Status status, const char *saved)
{
    bool open = h->csv.file.fd != LOG_FILE_CLOSED;
    status = metrics_file_close(&h->csv, status, saved);
    status = metrics_file_close(&h->jsonl, status, saved);
    return open && status == OK ? draw(h->folder) : status;
}
