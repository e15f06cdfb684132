/* Rows of a table, each with its bar. */
#include "corpus/clean/report_html.h"

#include <inttypes.h>
#include <string.h>
#include "base/log.h"
#include "corpus/read/json_text.h"

enum { LANGUAGES = 24 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>jotun clean</title>\n<style>\n"
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #222; background: #fff }\n"
    "h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin: 2em 0 .5em }\n"
    "table { border-collapse: collapse; width: 100% } td, th { padding: .15em .6em; text-align: right; font-weight: normal; white-space: nowrap }\n"
    "td:first-child, th:first-child { text-align: left } td:last-child { width: 45% } th { color: #777; border-bottom: 1px solid #ddd }\n"
    "i { display: block; height: .9em; background: #b8c4d0; min-width: 1px } i.kept { background: #3a7d5d; margin-top: 1px }\n"
    "@media (prefers-color-scheme: dark) { body { background: #181a1b; color: #ddd } th { border-color: #444 } i { background: #55616d } }\n"
    "</style></head><body>\n";

static Status put(Buffer *out, const char *text) { return buffer_add(out, text, (int64_t)strlen(text)); }

static Status text_put(Buffer *out, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        TRY(as ? put(out, as) : buffer_add(out, text, 1));
    }
    return OK;
}

static double share(int64_t part, int64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

static Status bar(Buffer *out, const char *kind, double percent)
{
    return json_text_words(out, "<i%s style=\"width:%.2f%%\"></i>", kind, percent);
}

static Status count_row(Buffer *out, const char *what, Count c, Count all, const char *kind)
{
    char bytes[24];
    TRY(put(out, "<tr><td>"));
    TRY(text_put(out, what));
    TRY(json_text_words(out, "</td><td>%" PRId64 "</td><td>%.2f%%</td><td>%s</td><td>%.2f%%</td><td>", c.documents,
                   share(c.documents, all.documents), log_bytes(bytes, (double)c.bytes), share(c.bytes, all.bytes)));
    TRY(bar(out, kind, share(c.documents, all.documents)));
    return put(out, "</td></tr>\n");
}

static Status table(Buffer *out, const char *title, const char *first)
{
    return json_text_words(out, "<h2>%s</h2>\n<table><tr><th>%s</th><th>documents</th><th></th><th>bytes</th><th></th><th></th></tr>\n",
                      title, first);
}

static Status rules_put(Buffer *out, const CleanCounts *t)
{
    TRY(table(out, "Rules", "dropped as"));
    TRY(count_row(out, "in", t->in, t->in, ""));
    for (int i = 0; i < DROP_REASONS; i++)
        if (t->dropped[i].documents) TRY(count_row(out, drop_reason_text(i), t->dropped[i], t->in, ""));
    TRY(count_row(out, "kept", t->kept, t->in, " class=\"kept\""));
    return put(out, "</table>\n");
}

static Status languages_put(Buffer *out, const DocumentFilter *j, const CleanCounts *t)
{
    LanguageRow row[LANGUAGES];
    Count all = { 0 };
    int count = clean_counts_languages(row, LANGUAGES, t);
    if (!count) return OK;
    for (int64_t i = 0; i < t->languages; i++) {
        all.documents += t->language[i].documents;
        all.bytes     += t->language[i].bytes;
    }
    TRY(table(out, "Languages", "likeliest of a document"));
    for (int i = 0; i < count; i++)
        TRY(count_row(out, document_filter_label(j, row[i].label), row[i].count, all, row[i].label == j->wanted ? " class=\"kept\"" : ""));
    return put(out, "</table>\n");
}

static Status lengths_put(Buffer *out, const CleanCounts *t)
{
    char    bytes[24];
    int64_t most = 1;
    for (int i = 0; i < COUNTS_LENGTHS; i++) most = t->length_in[i] > most ? t->length_in[i] : most;
    TRY(put(out, "<h2>Lengths</h2>\n<table><tr><th>from</th><th>in</th><th>kept</th><th></th></tr>\n"));
    for (int i = 0; i < COUNTS_LENGTHS; i++) {
        if (!t->length_in[i]) continue;
        TRY(json_text_words(out, "<tr><td>%s</td><td>%" PRId64 "</td><td>%" PRId64 "</td><td>",
                       i ? log_bytes(bytes, (double)((int64_t)1 << i)) : "0 B", t->length_in[i], t->length_kept[i]));
        TRY(bar(out, "", share(t->length_in[i], most)));
        TRY(bar(out, " class=\"kept\"", share(t->length_kept[i], most)));
        TRY(put(out, "</td></tr>\n"));
    }
    return put(out, "</table>\n");
}

Status report_html_make(Buffer *out, const DocumentFilter *j, const CleanCounts *t)
{
    char in[24], kept[24];
    TRY(put(out, head));
    TRY(json_text_words(out, "<h1>jotun clean: %" PRId64 " of %" PRId64 " documents, %s of %s</h1>\n", t->kept.documents, t->in.documents,
                   log_bytes(kept, (double)t->kept.bytes), log_bytes(in, (double)t->in.bytes)));
    TRY(rules_put(out, t));
    TRY(languages_put(out, j, t));
    TRY(lengths_put(out, t));
    return put(out, "</body></html>\n");
}
