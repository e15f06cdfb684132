/* The HTML page of the report: three tables, whose last column is a bar chart made of <i> elements with a
 * width in percent. Styles are in the page and there are no scripts; it has a dark colour scheme too. */
#include "corpus/clean/report_html.h"

#include <inttypes.h>
#include <string.h>
#include "base/log.h"
#include "corpus/read/json_text.h"

/* Rows of the languages table: the rest are a long tail, which the JSON report lists. */
enum { LANGUAGES = 24 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>jotun clean</title>\n<style>\n"
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; "
    "max-width: 60em; padding: 0 1em; color: #222; background: #fff }\n"
    "h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin: 2em 0 .5em }\n"
    "table { border-collapse: collapse; width: 100% } "
    "td, th { padding: .15em .6em; text-align: right; font-weight: normal; white-space: nowrap }\n"
    "td:first-child, th:first-child { text-align: left } td:last-child { width: 45% } "
    "th { color: #777; border-bottom: 1px solid #ddd }\n"
    "i { display: block; height: .9em; background: #b8c4d0; min-width: 1px } "
    "i.kept { background: #3a7d5d; margin-top: 1px }\n"
    "@media (prefers-color-scheme: dark) { body { background: #181a1b; color: #ddd } "
    "th { border-color: #444 } i { background: #55616d } }\n"
    "</style></head><body>\n";

static Status append(Buffer *out, const char *text) { return buffer_add(out, text, (int64_t)strlen(text)); }

/* Labels and names come from model files, so they may hold any character. */
static Status append_escaped(Buffer *out, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        TRY(as ? append(out, as) : buffer_add(out, text, 1));
    }
    return OK;
}

static double share(int64_t part, int64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

static Status bar(Buffer *out, const char *kind, double percent)
{
    return json_text_format(out, "<i%s style=\"width:%.2f%%\"></i>", kind, percent);
}

/* `kind` is a class attribute for the bar, or empty. Bars show the share of documents, not of bytes. */
static Status count_row(Buffer *out, const char *what, Count c, Count total, const char *kind)
{
    char bytes[24];
    TRY(append(out, "<tr><td>"));
    TRY(append_escaped(out, what));
    TRY(json_text_format(out, "</td><td>%" PRId64 "</td><td>%.2f%%</td><td>%s</td><td>%.2f%%</td><td>",
                         c.documents, share(c.documents, total.documents), log_bytes(bytes, (double)c.bytes),
                         share(c.bytes, total.bytes)));
    TRY(bar(out, kind, share(c.documents, total.documents)));
    return append(out, "</td></tr>\n");
}

static Status table(Buffer *out, const char *title, const char *first)
{
    return json_text_format(out,
                            "<h2>%s</h2>\n<table><tr><th>%s</th><th>documents</th><th></th>"
                            "<th>bytes</th><th></th><th></th></tr>\n",
                            title, first);
}

static Status drop_reasons_put(Buffer *out, const CleanCounts *counts)
{
    TRY(table(out, "Rules", "dropped as"));
    TRY(count_row(out, "in", counts->in, counts->in, ""));
    for (int i = 0; i < DROP_REASONS; i++)
        if (counts->dropped[i].documents)
            TRY(count_row(out, drop_reason_name(i), counts->dropped[i], counts->in, ""));
    TRY(count_row(out, "kept", counts->kept, counts->in, " class=\"kept\""));
    return append(out, "</table>\n");
}

/* Shares are of the documents that reached language identification. The language that is kept has its own
 * colour. */
static Status languages_put(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts)
{
    LanguageRow row[LANGUAGES];
    Count total = { 0 };
    int count = clean_counts_languages(row, LANGUAGES, counts);
    if (!count) return OK;
    for (int64_t i = 0; i < counts->languages; i++) {
        total.documents += counts->language[i].documents;
        total.bytes     += counts->language[i].bytes;
    }
    TRY(table(out, "Languages", "likeliest of a document"));
    for (int i = 0; i < count; i++)
        TRY(count_row(out, document_filter_label(filter, row[i].label), row[i].count, total,
                      row[i].label == filter->wanted ? " class=\"kept\"" : ""));
    return append(out, "</table>\n");
}

/* Two bars for each length, read and kept, both relative to the most frequent length. */
static Status lengths_put(Buffer *out, const CleanCounts *counts)
{
    char    bytes[24];
    int64_t most = 1;
    for (int i = 0; i < COUNTS_LENGTHS; i++) most = counts->length_in[i] > most ? counts->length_in[i] : most;
    TRY(append(out, "<h2>Lengths</h2>\n<table><tr><th>from</th><th>in</th><th>kept</th><th></th></tr>\n"));
    for (int i = 0; i < COUNTS_LENGTHS; i++) {
        if (!counts->length_in[i]) continue;
        TRY(json_text_format(out, "<tr><td>%s</td><td>%" PRId64 "</td><td>%" PRId64 "</td><td>",
                             i ? log_bytes(bytes, (double)((int64_t)1 << i)) : "0 B", counts->length_in[i],
                             counts->length_kept[i]));
        TRY(bar(out, "", share(counts->length_in[i], most)));
        TRY(bar(out, " class=\"kept\"", share(counts->length_kept[i], most)));
        TRY(append(out, "</td></tr>\n"));
    }
    return append(out, "</table>\n");
}

Status report_html_make(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts)
{
    char in[24], kept[24];
    TRY(append(out, head));
    TRY(json_text_format(out, "<h1>jotun clean: %" PRId64 " of %" PRId64 " documents, %s of %s</h1>\n",
                         counts->kept.documents, counts->in.documents,
                         log_bytes(kept, (double)counts->kept.bytes),
                         log_bytes(in, (double)counts->in.bytes)));
    TRY(drop_reasons_put(out, counts));
    TRY(languages_put(out, filter, counts));
    TRY(lengths_put(out, counts));
    return append(out, "</body></html>\n");
}
