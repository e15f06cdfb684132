/* The table and the JSON report. Only reasons, languages and lengths that occur are listed; names and
 * members are documented in docs/formats.md. */
#include "corpus/clean/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/json_text.h"

/* ---- the table ---- */

static double share(int64_t part, int64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

static void row_print(FILE *out, const char *what, Count c, Count all)
{
    char bytes[24];
    fprintf(out, "%-26s %12" PRId64 " %6.2f%% %12s %6.2f%%\n", what, c.documents,
            share(c.documents, all.documents), log_bytes(bytes, (double)c.bytes), share(c.bytes, all.bytes));
}

void report_print(FILE *out, const CleanPlan *plan, const CleanCounts *counts)
{
    fprintf(out, "%-26s %12s %7s %12s\n", plan->sample ? "a sample" : "", "documents", "", "bytes");
    row_print(out, "in", counts->in, counts->in);
    for (int i = 0; i < DROP_REASONS; i++)
        if (counts->dropped[i].documents) row_print(out, drop_reason_name(i), counts->dropped[i], counts->in);
    row_print(out, "kept", counts->kept, counts->in);
    if (counts->damaged) fprintf(out, "%-26s %12" PRId64 "\n", "damaged files", counts->damaged);
    if (counts->skipped_pages)
        fprintf(out, "%-26s %12" PRId64 "\n", "pages that are not articles", counts->skipped_pages);
}

/* ---- JSON, appended to a buffer in the order of the members ---- */

static Status count_json(Buffer *out, const char *before, const char *name, Count c)
{
    TRY(buffer_format(out, "%s", before));
    TRY(json_text_label(out, name));
    return buffer_format(out, ": {\"documents\": %" PRId64 ", \"bytes\": %" PRId64 "}", c.documents,
                            c.bytes);
}

static Status inputs_json(Buffer *out, const CleanPlan *plan)
{
    for (int i = 0; i < plan->paths; i++) {
        TRY(buffer_format(out, "%s", i ? ", " : " \"inputs\": ["));
        TRY(json_text_label(out, plan->path[i]));
    }
    return buffer_format(out, "],\n");
}

static Status drop_reasons_json(Buffer *out, const CleanCounts *counts)
{
    bool first = true;
    TRY(buffer_format(out, " \"dropped\": {"));
    for (int i = 0; i < DROP_REASONS; i++) {
        if (!counts->dropped[i].documents) continue;
        TRY(count_json(out, first ? "\n  " : ",\n  ", drop_reason_name(i), counts->dropped[i]));
        first = false;
    }
    return buffer_format(out, "},\n");
}

/* The most probable language of each document that reached that stage, also of those that were dropped
 * afterwards. At most 256 languages are listed. */
static Status languages_json(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts)
{
    LanguageRow row[256];
    int count = clean_counts_languages(row, COUNT(row), counts);
    TRY(buffer_format(out, " \"languages\": {"));
    for (int i = 0; i < count; i++)
        TRY(count_json(out, i ? ",\n  " : "\n  ", document_filter_label(filter, row[i].label), row[i].count));
    return buffer_format(out, "},\n");
}

/* Bin 0 holds documents of 0 and of 1 byte, so it begins at 0. */
static Status lengths_json(Buffer *out, const CleanCounts *counts)
{
    bool first = true;
    TRY(buffer_format(out, " \"lengths\": ["));
    for (int i = 0; i < COUNTS_LENGTHS; i++) {
        if (!counts->length_in[i]) continue;
        TRY(buffer_format(
            out, "%s{\"bytes_from\": %" PRId64 ", \"in\": %" PRId64 ", \"kept\": %" PRId64 "}",
            first ? "\n  " : ",\n  ", i ? (int64_t)1 << i : 0, counts->length_in[i], counts->length_kept[i]));
        first = false;
    }
    return buffer_format(out, "],\n");
}

/* What was changed inside documents that passed: numbers of documents, lines or characters, as the name
 * says. */
static Status changes_json(Buffer *out, const CleanCounts *counts)
{
    TRY(buffer_format(
        out, " \"changes\": {\"documents repaired\": %" PRId64 ", \"parts that stood before\": %" PRId64,
        counts->repaired, counts->parts));
    for (int i = 0; i < CHARSET_COUNTS; i++)
        if (counts->charset[i])
            TRY(buffer_format(out, ", \"%s\": %" PRId64, charset_count_name((CharsetCount)i),
                                 counts->charset[i]));
    for (int i = 0; i < QUALITY_RULES; i++)
        if (counts->lines[i])
            TRY(buffer_format(out, ", \"lines: %s\": %" PRId64, quality_row[i].name, counts->lines[i]));
    return buffer_format(out, "},\n");
}

static Status near_json(Buffer *out, const DocumentFilter *filter)
{
    if (!filter->minhash) return OK;
    MinHashCounts n = minhash_counts(filter->minhash);
    return buffer_format(out,
                            " \"near\": {\"clusters\": %" PRId64 ", \"pairs\": %" PRId64
                            ", \"compared\": %" PRId64 ", \"too_short\": %" PRId64
                            ", \"largest_bucket\": %" PRId64 "},\n",
                            n.clusters, n.pairs, n.compared, n.too_short, n.largest);
}

static Status report_json(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts)
{
    TRY(buffer_format(out, "{\n"));
    TRY(inputs_json(out, filter->plan));
    TRY(count_json(out, " ", "in", counts->in));
    TRY(count_json(out, ",\n ", "kept", counts->kept));
    TRY(count_json(out, ",\n ", "written", counts->written));
    TRY(buffer_format(out, ",\n"));
    TRY(drop_reasons_json(out, counts));
    TRY(languages_json(out, filter, counts));
    TRY(lengths_json(out, counts));
    TRY(changes_json(out, counts));
    TRY(near_json(out, filter));
    return buffer_format(out, " \"passed_over\": %" PRId64 ",\n \"damaged_files\": %" PRId64 "\n}\n",
                            counts->skipped_pages, counts->damaged);
}

/* A dot in a directory's name, or one that begins the path, is not the beginning of an extension. */
void report_page_path(char *out, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    snprintf(out, size, "%.*s.html", dot && dot > path ? (int)(dot - path) : (int)strlen(path), path);
}

Status report_write(const CleanRun *run)
{
    Buffer out = { 0 };
    const char *path = run->plan->report;
    if (!path) return OK;
    Status status = folder_make_for(path);
    if (status == OK) status = report_json(&out, &run->filter, run->counts);
    if (status == OK) status = file_write_whole(path, out.text, (size_t)out.bytes);
    buffer_free(&out);
    return status;
}
