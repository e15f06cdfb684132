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
/* is: whether a file that begins so may be replaced; name: of what is written */
typedef struct { ReportWrite *write; bool (*is)(const char *head); const char *name; } ReportFormat;
/* In the order of the words of --format. */
static const ReportFormat report_formats[] = {
    { run_report_html, run_report_is_html, "page" },
    { run_report_json, run_report_is_json, "JSON of jotun report" },
    { run_report_csv,  run_report_is_csv,  "table of jotun report" },
    { run_report_md,   run_report_is_md,   "Markdown of jotun report" } };
static const ReportFormat compare_formats[] = {
    { run_compare_html, run_report_is_html, "page" },
    { run_compare_json, run_report_is_json, "JSON of jotun compare" },
    { run_compare_csv,  run_report_is_csv,  "table of jotun compare" },
    { run_compare_md,   run_report_is_md,   "Markdown of jotun compare" } };
static const char *const endings[] = { ".html", ".json", ".csv", ".md" };

/* "-": standard output. A page lies in the first run's directory, or beside its file. */
static Status output_of(char path[1024], const Options *o)
{
    struct stat about;
    const char *first = o->words.text[0];
    bool compares = o->command == FOR_COMPARE;
    const char *given = o->report_output ? o->report_output : compares ? "compare.html" : NULL;
    if (!o->report_output && o->report_format.value != CHOICE_report_format_html) given = "-";
    if (!given && stat(first, &about) == 0 && S_ISDIR(about.st_mode))
        return path_join(path, first, "report.html");
    if (snprintf(path, 1024, given ? "%s" : "%s.html", given ? given : first) < 1024) return OK;
    return fail(BAD_OPTION, "--output: the name is longer than 1,023 bytes");
}

/* A report replaces one of its format alone, since a slip of the keyboard would replace any other file. */
static Status output_spares(const char *path, const ReportFormat *format)
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
    return fail(BAD_OPTION, "--output %s is there and is no %s; give another name, or remove it", path,
                format->name);
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

static bool all_ended(const RunReport *report)
{
    for (int i = 0; i < report->runs; i++) if (!run_over(&report->run[i])) return false;
    return true;
}

/* Whether a file has grown since it was read, or a later run has cut it. */
static bool changed(const RunReport *report)
{
    struct stat about;
    for (int i = 0; i < report->runs; i++)
        if (stat(report->run[i].path, &about) == 0 && about.st_size != report->run[i].size) return true;
    return false;
}

/* Whether the process of a run that is not over has gone without a last line: nothing will change. */
static bool process_gone(const RunReport *report)
{
    for (int i = 0; i < report->runs; i++)
        if (!run_over(&report->run[i]) && run_is_lost(&report->run[i])) return true;
    return false;
}

/* Until all runs have ended: then the page is written once more, and does not load itself again. */
static Status follow(const Options *o, const char *path, ReportWrite *write, RunRecord *run)
{
    const volatile sig_atomic_t *stop = signals_catch("");
    RunReport report = { run, o->words.count, RELOAD_SECONDS };
    Status status = OK;
    while (status == OK) {
        bool over = *stop || all_ended(&report);
        report.refresh = over ? 0 : RELOAD_SECONDS;
        status = write_once(path, write, &report);
        if (over) break;
        for (int tenths = 0; !*stop && (tenths < 10 || !changed(&report)); tenths++) {
            if (tenths >= 10 && tenths % 10 == 0 && process_gone(&report)) break;
            usleep(100000);
        }
        if (*stop || status != OK) continue;
        RunRecord *fresh;
        status = runs_read(&fresh, o);
        if (status != OK) break;
        runs_free((RunRecord *)report.run, report.runs);
        report.run = fresh;
    }
    runs_free((RunRecord *)report.run, report.runs);
    return status;
}

static Status report_command(const Options *o, const ReportFormat *formats)
{
    char path[1024];
    RunRecord *run;
    bool compares = o->command == FOR_COMPARE;
    int least = compares ? 2 : 1, most = compares ? RUN_COMPARE_MOST : WORDS_MOST;
    if (o->words.count < least) return options_expect(o, least, compares ? "DIR DIR..." : "DIR...");
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
    for (int i = 0; dot && i < COUNT(endings); i++)
        if (!strcmp(dot, endings[i])) format = &formats[i];
    if (!prints) TRY(output_spares(path, format));
    TRY(runs_read(&run, o));
    /* What is left out is said once, where the person who typed the command looks. */
    for (int i = 0; i < o->words.count; i++)
        if (run[i].strange)
            log_line("%s: %" PRId64 " of its %" PRId64 " lines %s not understood, and left out", run[i].path,
                     run[i].strange, run[i].lines, run[i].strange == 1 ? "is" : "are");
    RunReport report = { run, o->words.count, 0 };
    if (o->report_follow) {
        printf("%s\n", path);
        fflush(stdout);
        return follow(o, path, format->write, run);
    }
    Status status = write_once(path, format->write, &report);
    if (!prints && status == OK) printf("%s\n", path);
    runs_free(run, report.runs);
    return status;
}

Status cmd_report (Options *o) { return report_command(o, report_formats); }
Status cmd_compare(Options *o) { return report_command(o, compare_formats); }
