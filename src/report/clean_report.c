#include "report/clean_report.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "report/html.h"

/* Rows of the languages table: the rest are a long tail, which the JSON report lists. */
enum { LANGUAGES = 24 };

static double number_in(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : 0;
}

static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* count, of: { "documents", "bytes" }. Bars show the share of documents, not of bytes. */
static void count_row(FILE *out, const char *what, const json_t *count, const json_t *of, int kind)
{
    char   bytes[24];
    double documents = number_in(count, "documents"), size = number_in(count, "bytes");
    fputs("<tr><td class=\"t\">", out);
    html_text(out, what);
    fprintf(out, "</td><td>%.0f</td><td>%.2f %%</td><td>%s</td><td>%.2f %%</td><td>", documents,
            share(documents, number_in(of, "documents")), log_bytes(bytes, size),
            share(size, number_in(of, "bytes")));
    html_bar(out, documents, number_in(of, "documents"), kind);
    fputs("</td></tr>\n", out);
}

static void table_begin(FILE *out, const char *title, const char *first)
{
    fprintf(out,
            "<h2>%s</h2>\n<div class=\"scroll\"><table class=\"bars\"><thead><tr><th "
            "class=\"t\">%s</th><th>documents</th>"
            "<th>share</th><th>bytes</th><th>share</th><th></th></tr></thead><tbody>\n",
            title, first);
}

static void table_end(FILE *out) { fputs("</tbody></table></div>\n", out); }

enum { GREY = 6, GREEN = 2, BLUE = 0 };

static void rules(FILE *out, const json_t *report)
{
    const json_t *in = json_object_get(report, "in");
    const char *name;
    json_t *count;
    table_begin(out, "Rules", "dropped as");
    count_row(out, "in", in, in, GREY);
    json_object_foreach(json_object_get(report, "dropped"), name, count)
        count_row(out, name, count, in, BLUE);
    count_row(out, "kept", json_object_get(report, "kept"), in, GREEN);
    table_end(out);
}

/* Shares are of the documents that reached language identification. */
static void languages(FILE *out, const json_t *report)
{
    json_t *list = json_object_get(report, "languages"), *count, *total;
    const char *name;
    double documents = 0, bytes = 0;
    int row = 0;
    if (json_object_size(list) == 0) return;
    json_object_foreach(list, name, count) {
        documents += number_in(count, "documents");
        bytes     += number_in(count, "bytes");
    }
    total = json_pack("{s:f, s:f}", "documents", documents, "bytes", bytes);
    CHECK(total, "no memory for a sum of documents");
    table_begin(out, "Languages", "likeliest of a document");
    json_object_foreach(list, name, count)
        if (row++ < LANGUAGES) count_row(out, name, count, total, BLUE);
    table_end(out);
    if (row > LANGUAGES)
        fprintf(out, "<p class=\"soft\">%d of %d languages; the JSON report has them all.</p>\n", LANGUAGES,
                row);
    json_decref(total);
}

/* Two bars for each length, read and kept, both relative to the most frequent length. */
static void lengths(FILE *out, const json_t *report)
{
    json_t *list = json_object_get(report, "lengths"), *bin;
    size_t  i;
    char    bytes[24];
    double  most = 1;
    if (json_array_size(list) == 0) return;
    json_array_foreach(list, i, bin) if (number_in(bin, "in") > most) most = number_in(bin, "in");
    fputs("<h2>Lengths</h2>\n<div class=\"scroll\"><table class=\"bars\"><thead><tr><th class=\"t\">bytes, "
          "from</th><th>in</th>"
          "<th>kept</th><th></th></tr></thead><tbody>\n",
          out);
    json_array_foreach(list, i, bin) {
        fprintf(out, "<tr><td class=\"t\">%s</td><td>%.0f</td><td>%.0f</td><td>",
                log_bytes(bytes, number_in(bin, "bytes_from")), number_in(bin, "in"), number_in(bin, "kept"));
        html_bar(out, number_in(bin, "in"), most, GREY);
        html_bar(out, number_in(bin, "kept"), most, GREEN);
        fputs("</td></tr>\n", out);
    }
    table_end(out);
}

static void changes(FILE *out, const json_t *report)
{
    const char *name;
    json_t *count;
    bool any = false;
    json_object_foreach(json_object_get(report, "changes"), name, count) any |= json_number_value(count) > 0;
    if (!any) return;
    fputs("<h2>Changes inside documents</h2>\n<div class=\"scroll\"><table><tbody>\n", out);
    json_object_foreach(json_object_get(report, "changes"), name, count) {
        fputs("<tr><th class=\"t\">", out);
        html_text(out, name);
        fprintf(out, "</th><td>%.0f</td></tr>\n", json_number_value(count));
    }
    table_end(out);
}

static void inputs(FILE *out, const json_t *report)
{
    json_t *list = json_object_get(report, "inputs"), *path;
    size_t  i;
    fputs("<h2>Inputs</h2>\n<p>", out);
    json_array_foreach(list, i, path) {
        if (i == 50) break;
        html_text(out, json_string_value(path));
        fputs("<br>\n", out);
    }
    if (json_array_size(list) > 50) fprintf(out, "and %zu more", json_array_size(list) - 50);
    fputs("</p>\n", out);
}

static void page_put(FILE *out, const json_t *report)
{
    char text[64], kept[24], in[24];
    const json_t *before = json_object_get(report, "in"), *after = json_object_get(report, "kept");
    html_begin(out, "jotun clean", 0);
    fprintf(out, "<h1>jotun clean: %.0f of %.0f documents</h1>\n<div class=\"tiles\">\n",
            number_in(after, "documents"), number_in(before, "documents"));
    snprintf(text, sizeof text, "%s of %s", log_bytes(kept, number_in(after, "bytes")),
             log_bytes(in, number_in(before, "bytes")));
    html_tile(out, "bytes kept", text);
    snprintf(text, sizeof text, "%.1f %%",
             share(number_in(after, "documents"), number_in(before, "documents")));
    html_tile(out, "of the documents", text);
    snprintf(text, sizeof text, "%.0f", number_in(report, "damaged_files"));
    html_tile(out, "damaged files", text);
    fputs("</div>\n", out);
    rules(out, report);
    languages(out, report);
    lengths(out, report);
    changes(out, report);
    inputs(out, report);
    html_end(out);
}

Status clean_report_write(const char *page, const char *path)
{
    char  *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    FILE *in;
    TRY(file_stream(&in, path));
    json_t *report = json_loadf(in, 0, &error);
    fclose(in);
    if (!json_is_object(report)) {
        json_decref(report);
        return fail(BAD_FILE, "%s: line %d: %s", path, error.line, error.text);
    }
    FILE *out = open_memstream(&text, &bytes);
    if (out) page_put(out, report);
    json_decref(report);
    Status status = out && fclose(out) == 0 ? file_write_whole(page, text, bytes)
                                            : fail(NO_MEMORY, "no memory for %s", page);
    free(text);
    return status;
}
