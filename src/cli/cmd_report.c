/* jotun report DIR... and jotun compare DIR...: what training runs have written about themselves, as a page,
 * JSON, a table or Markdown, also while they go on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/signals.h"
#include "conf/conf.h"
#include "report/run_report.h"

enum { RELOAD_SECONDS = 10, WORDS_MOST = 100 };
typedef void ReportWrite(FILE *out, const RunReport *report);
/* A format of jotun report and of jotun compare. is: whether a file that begins so may be replaced; what: is
 * written by either, before its name */
typedef struct {
    ReportWrite *report, *compare;
    bool       (*is)(const char *head);
    const char  *what, *ending;
} ReportFormat;
/* In the order of the words of --format. */
static const ReportFormat formats[] = {
    { run_report_html, run_compare_html, run_report_is_html, "page",     ".html" },
    { run_report_json, run_compare_json, run_report_is_json, "JSON",     ".json" },
    { run_report_csv,  run_compare_csv,  run_report_is_csv,  "table",    ".csv" },
    { run_report_md,   run_compare_md,   run_report_is_md,   "Markdown", ".md" } };

static bool compares(const Options *o) { return o->command == FOR_COMPARE; }

/* "-": standard output. A page lies in the first run's directory, or beside its file. */
static Status output_of(char path[1024], const Options *o)
{
    struct stat about;
    const char *first = o->words.text[0];
    const char *given = o->report_output ? o->report_output : compares(o) ? "compare.html" : NULL;
    if (!o->report_output && o->report_format.value != CHOICE_report_format_html) given = "-";
    if (!given && stat(first, &about) == 0 && S_ISDIR(about.st_mode))
        return path_join(path, first, "report.html");
    if (snprintf(path, 1024, given ? "%s" : "%s.html", given ? given : first) < 1024) return OK;
    return fail(BAD_OPTION, "--output: the name is longer than 1,023 bytes");
}

/* A report replaces one of its format alone, since a slip of the keyboard would replace any other file. */
static Status output_spares(const char *path, const ReportFormat *format, const Options *o)
{
    struct stat about;
    char        head[RUN_HEAD_ROOM + 1] = "";
    if (stat(path, &about) != 0) return OK;
    if (S_ISDIR(about.st_mode))
        return fail(BAD_OPTION, "--output %s is a directory; give a file's name", path);
    FILE *in = S_ISREG(about.st_mode) ? fopen(path, "r") : NULL;
    size_t bytes = in ? fread(head, 1, RUN_HEAD_ROOM, in) : 0;
    if (in) fclose(in);
    if (bytes == 0 || format->is(head)) return OK;
    return fail(BAD_OPTION, "--output %s is there and is no %s of jotun %s; give another name, or remove it",
                path, format->what, compares(o) ? "compare" : "report");
}

static void runs_free(RunRecord *run, int runs)
{
    for (int i = 0; i < runs; i++) run_record_free(&run[i]);
    free(run);
}

static void runs_name(RunRecord *run, const Options *o)
{
    char *name[WORDS_MOST];
    run_names_apart(name, o->words.text, o->words.count);
    for (int i = 0; i < o->words.count; i++) {
        free(run[i].name);
        run[i].name = name[i];
    }
}

static Status runs_read(RunRecord **run, const Options *o)
{
    int runs = 0;
    Status status = OK;
    *run = calloc((size_t)o->words.count, sizeof **run);
    if (!*run) return fail(NO_MEMORY, "no memory for %d runs", o->words.count);
    for (; status == OK && runs < o->words.count; runs++)
        status = run_record_read(&(*run)[runs], o->words.text[runs]);
    if (status == OK) runs_name(*run, o);
    else runs_free(*run, runs), *run = NULL;
    return status;
}

static Status write_once(const char *path, ReportWrite *write, const RunReport *report)
{
    char  *text = NULL;
    size_t bytes = 0;
    for (int i = 0; i < report->runs; i++) TRY(input_spared(report->run[i].path, path));
    FILE *out = open_memstream(&text, &bytes);
    if (out) write(out, report);
    Status status = out && fclose(out) == 0 ? OK : fail(NO_MEMORY, "no memory for the report");
    if (status == OK && strcmp(path, "-") != 0) status = file_write_whole(path, text, bytes);
    else if (status == OK) fwrite(text, 1, bytes, stdout);
    free(text);
    return status;
}

/* The page shows this too; the log is where the person who typed the command looks. */
static void tell_strange(const RunReport *report)
{
    for (int i = 0; i < report->runs; i++) {
        const RunRecord *run = &report->run[i];
        if (run->strange)
            log_line("%s: %" PRId64 " of its %" PRId64 " lines %s not understood, and left out", run->path,
                     run->strange, run->lines, run->strange == 1 ? "is" : "are");
    }
}

static bool all_over(const RunReport *report)
{
    for (int i = 0; i < report->runs; i++) if (!run_over(&report->run[i])) return false;
    return true;
}

/* --follow writes it again until all runs are over, killed ones too; the last page does not load itself
 * again. */
static Status write_all(const Options *o, const char *path, ReportWrite *write)
{
    const volatile sig_atomic_t *stop = o->report_follow ? signals_catch("") : NULL;
    for (bool first = true, over = false; !over; first = false) {
        RunRecord *run;
        TRY(runs_read(&run, o));
        RunReport report = { run, o->words.count, 0 };
        if (first) tell_strange(&report);
        over = !stop || *stop || all_over(&report);
        if (!over) report.refresh = RELOAD_SECONDS;
        Status status = write_once(path, write, &report);
        runs_free(run, report.runs);
        TRY(status);
        if (first && strcmp(path, "-")) printf("%s\n", path), fflush(stdout);
        for (int tenths = 0; !over && !*stop && tenths < 10 * RELOAD_SECONDS; tenths++) usleep(100000);
    }
    return OK;
}

static Status report_command(const Options *o)
{
    char path[1024];
    int least = compares(o) ? 2 : 1, most = compares(o) ? RUN_COMPARE_MOST : WORDS_MOST;
    if (o->words.count < least) return options_expect(o, least, compares(o) ? "DIR DIR..." : "DIR...");
    if (o->words.count > most)
        return fail(BAD_OPTION, "%d runs are given; at most %d are shown together, give fewer",
                    o->words.count, most);
    TRY(output_of(path, o));
    bool prints = !strcmp(path, "-");
    if (o->report_follow && prints)
        return fail(BAD_OPTION,
                    "--follow writes a file again and again; give --output FILE, not standard output");
    if (!prints) TRY(output_directory("--output", path));
    /* Without --format the ending of --output says it. */
    const ReportFormat *format = &formats[o->report_format.value - CHOICE_report_format_html];
    const char *dot = options_typed_by_person(o, OPTION_report_format) ? NULL : strrchr(path, '.');
    for (int i = 0; dot && i < COUNT(formats); i++)
        if (!strcmp(dot, formats[i].ending)) format = &formats[i];
    if (!prints) TRY(output_spares(path, format, o));
    return write_all(o, path, compares(o) ? format->compare : format->report);
}

Status cmd_report (Options *o) { return report_command(o); }
Status cmd_compare(Options *o) { return report_command(o); }
