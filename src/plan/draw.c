#include "plan/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows of all stages that take time, as cells of a picture. */
typedef struct { const ScheduleRow *row; int stage, time; } Cell;
typedef struct { int cells, width; Cell *cell; } Picture;

static Picture picture_make(const Schedule *all, int stages)
{
    double *end = schedule_ends(all, stages, 1, 1, 1), *at = end;
    size_t most = 3 * (size_t)stages * (size_t)all->chunks * (size_t)all->micros;
    Picture picture = { 0, 0, malloc(most * sizeof(Cell)) };
    CHECK(picture.cell, "no memory to draw %d stages", stages);
    for (int i = 0; i < stages; i++) {
        for (const ScheduleRow *row = all[i].row; row < all[i].row + all[i].rows; row++, at++) {
            if (row->verb != FORWARD && row->verb != BACKWARD_INPUT && row->verb != BACKWARD_WEIGHT) continue;
            picture.cell[picture.cells++] = (Cell){ row, i, (int)*at - 1 };
            if (picture.width < (int)*at) picture.width = (int)*at;
        }
    }
    free(end);
    return picture;
}

static FILE *text_open(char **text, size_t *size)
{
    FILE *out = open_memstream(text, size);
    CHECK(out, "no memory for a picture");
    return out;
}

static char letter(const ScheduleRow *row)
{
    if (row->verb == FORWARD) return (char)('0' + row->micro % 10);
    return (char)((row->verb == BACKWARD_INPUT ? 'a' : 'A') + row->micro % 26);
}

char *draw_schedule(const Schedule *all, int stages)
{
    char *text, *line;
    size_t size;
    Picture picture = picture_make(all, stages);
    FILE *out = text_open(&text, &size);
    fprintf(out, "%s, %d micro-batches in %d chunks: forward 0 to 9, backward a to z, weights A to Z, idle .\n",
            schedule_name(all->kind), all->micros, all->chunks);
    line = malloc((size_t)picture.width + 1);
    CHECK(line, "no memory to draw a line of %d", picture.width);
    for (int i = 0, c = 0; i < stages; i++) {
        memset(line, '.', (size_t)picture.width);
        for (; c < picture.cells && picture.cell[c].stage == i; c++)
            line[picture.cell[c].time] = letter(picture.cell[c].row);
        fprintf(out, "%4d %.*s\n", i, picture.width, line);
    }
    fclose(out);
    free(line);
    free(picture.cell);
    return text;
}

enum { CELL_X = 22, CELL_Y = 20, MARGIN = 30 };

static void draw_cell(FILE *out, const Cell *cell, int chunks)
{
    ScheduleVerb verb = cell->row->verb;
    const char *colour = verb == FORWARD ? "#6b9be0" : verb == BACKWARD_INPUT ? "#6fbf73" : "#f0b24a";
    int    x = MARGIN + cell->time * CELL_X, y = cell->stage * CELL_Y;
    double solid = 1 - 0.6 * cell->row->chunk / chunks;
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" fill-opacity=\"%.2f\""
                 " stroke=\"white\"/><text x=\"%d\" y=\"%d\">%d</text>\n",
            x, y, CELL_X, CELL_Y, colour, solid, x + CELL_X / 2, y + CELL_Y - 6, cell->row->micro);
}

char *draw_schedule_svg(const Schedule *all, int stages)
{
    char *text;
    size_t size;
    Picture picture = picture_make(all, stages);
    FILE *out = text_open(&text, &size);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\""
                 " font-size=\"11\" text-anchor=\"middle\">\n<title>%s, %d stages, %d micro-batches</title>\n",
            MARGIN + picture.width * CELL_X, stages * CELL_Y, schedule_name(all->kind), stages, all->micros);
    fprintf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#eeeeee\"/>\n");    /* what stays visible is idle */
    for (int i = 0; i < stages; i++)
        fprintf(out, "<text x=\"%d\" y=\"%d\">%d</text>\n", MARGIN / 2, (i + 1) * CELL_Y - 6, i);
    for (int c = 0; c < picture.cells; c++) draw_cell(out, &picture.cell[c], all->chunks);
    fprintf(out, "</svg>\n");
    fclose(out);
    free(picture.cell);
    return text;
}
