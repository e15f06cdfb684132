/* Drawings of pipeline schedules. The times come from the simulation with one unit of time per computation,
 * so every computation is one cell of a grid with a row per stage and a column per unit of time. */
#include "plan/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The computations of all stages, ordered by stage: cell[cells]; width is the number of columns. The rows
 * belong to the schedules. */
typedef struct { const ScheduleRow *row; int stage, time; } Cell;
typedef struct { int cells, width; Cell *cell; } TimeGrid;

static TimeGrid grid_make(const Schedule *all, int stages)
{
    ScheduleCost cost = schedule_cost(1, 1, 1);
    double *end = schedule_ends(all, stages, &cost), *at = end;
    size_t most = 3 * (size_t)stages * (size_t)all->shape.chunks * (size_t)all->shape.micros;
    TimeGrid grid = { 0, 0, malloc(most * sizeof(Cell)) };
    CHECK(grid.cell, "no memory to draw %d stages", stages);
    for (int i = 0; i < stages; i++) {
        for (const ScheduleRow *row = all[i].row; row < all[i].row + all[i].rows; row++, at++) {
            if (row->verb != FORWARD && row->verb != BACKWARD_INPUT && row->verb != BACKWARD_WEIGHT) continue;
            grid.cell[grid.cells++] = (Cell){ row, i, (int)*at - 1 };
            if (grid.width < (int)*at) grid.width = (int)*at;
        }
    }
    free(end);
    return grid;
}

/* A stream that writes to *text, which grows as needed and is complete after fclose; the caller frees it. */
static FILE *memory_stream_open(char **text, size_t *size)
{
    FILE *out = open_memstream(text, size);
    CHECK(out, "no memory for a drawing of the schedule");
    return out;
}

/* Micro-batch numbers modulo 10 forward and modulo 26 backward: one column per unit of time has one character
 * only. */
static char cell_letter(const ScheduleRow *row)
{
    if (row->verb == FORWARD) return (char)('0' + row->micro % 10);
    return (char)((row->verb == BACKWARD_INPUT ? 'a' : 'A') + row->micro % 26);
}

char *draw_schedule(const Schedule *all, int stages)
{
    char *text, *line, *chunks;
    size_t size;
    TimeGrid grid = grid_make(all, stages);
    FILE *out = memory_stream_open(&text, &size);
    fprintf(out,
        "%s, %d micro-batch%s, %d chunk%s per stage: forward 0 to 9, backward a to z, weights A to Z,"
        " idle .\n",
        schedule_name(all->shape.kind), all->shape.micros, all->shape.micros == 1 ? "" : "es",
        all->shape.chunks, all->shape.chunks == 1 ? "" : "s");
    line   = malloc((size_t)grid.width + 1);
    chunks = malloc((size_t)grid.width + 1);
    CHECK(line && chunks, "no memory to draw a line of %d", grid.width);
    for (int i = 0, c = 0; i < stages; i++) {
        memset(line,   '.', (size_t)grid.width);
        memset(chunks, ' ', (size_t)grid.width);
        for (; c < grid.cells && grid.cell[c].stage == i; c++) {
            line[grid.cell[c].time]   = cell_letter(grid.cell[c].row);
            chunks[grid.cell[c].time] = "0123456789abcdef"[grid.cell[c].row->chunk];
        }
        fprintf(out, "%4d %.*s\n", i, grid.width, line);
        if (all->shape.chunks > 1) fprintf(out, "     %.*s\n", grid.width, chunks);
    }
    fclose(out);
    free(line);
    free(chunks);
    free(grid.cell);
    return text;
}

enum { CELL_X = 22, CELL_Y = 20, MARGIN = 30 };            /* pixels; the margin has the stage numbers */

/* Colours are attributes, so that the file is complete alone; CSS of a page overrides them by the classes
 * forward, backward, weights and idle. */
/* The colour is the verb, the opacity the chunk: with several chunks per stage the same micro-batch number
 * occurs in each. */
static void draw_cell(FILE *out, const Cell *cell, int chunks)
{
    ScheduleVerb verb = cell->row->verb;
    const char *name   = verb == FORWARD ? "forward" : verb == BACKWARD_INPUT ? "backward" : "weights";
    const char *colour = verb == FORWARD ? "#6b9be0" : verb == BACKWARD_INPUT ? "#6fbf73" : "#f0b24a";
    int    x = MARGIN + cell->time * CELL_X, y = cell->stage * CELL_Y;
    double opacity = 1 - 0.6 * cell->row->chunk / chunks;
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\""
                 " fill-opacity=\"%.2f\" stroke=\"white\"/><text x=\"%d\" y=\"%d\">%d</text>\n",
            name, x, y, CELL_X, CELL_Y, colour, opacity, x + CELL_X / 2, y + CELL_Y - 6, cell->row->micro);
}

char *draw_schedule_svg(const Schedule *all, int stages)
{
    char *text;
    size_t size;
    TimeGrid grid = grid_make(all, stages);
    FILE *out = memory_stream_open(&text, &size);
    fprintf(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\""
                 " font-size=\"11\" text-anchor=\"middle\">\n"
                 "<title>%s, %d stages, %d micro-batches</title>\n",
            MARGIN + grid.width * CELL_X, stages * CELL_Y, schedule_name(all->shape.kind), stages,
            all->shape.micros);
    /* where it remains visible the stage is idle */
    fprintf(out, "<rect class=\"idle\" width=\"100%%\" height=\"100%%\" fill=\"#eeeeee\"/>\n");
    for (int i = 0; i < stages; i++)
        fprintf(out, "<text x=\"%d\" y=\"%d\">%d</text>\n", MARGIN / 2, (i + 1) * CELL_Y - 6, i);
    for (int c = 0; c < grid.cells; c++) draw_cell(out, &grid.cell[c], all->shape.chunks);
    fprintf(out, "</svg>\n");
    fclose(out);
    free(grid.cell);
    return text;
}
