#ifndef REPORT_RUN_REPORT_H
#define REPORT_RUN_REPORT_H
/* What `jotun report` and `jotun compare` write about runs, in each of their formats. Writing to `out` is the
 * caller's to check. */
#include "report/run_record.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct { const RunRecord *run; int runs; int refresh; } RunReport;     /* refresh: html_begin */

void run_report_html(FILE *out, const RunReport *report);
void run_report_json(FILE *out, const RunReport *report);
void run_report_csv (FILE *out, const RunReport *report);
void run_report_md  (FILE *out, const RunReport *report);

enum { RUN_COMPARE_MOST = 20 };
void run_compare_html(FILE *out, const RunReport *report);
void run_compare_json(FILE *out, const RunReport *report);
void run_compare_csv (FILE *out, const RunReport *report);
void run_compare_md  (FILE *out, const RunReport *report);

/* { "runs": [...] } of run_report_json, to which more members may be added, and what writes and frees it. */
json_t *run_report_tree(const RunReport *report);
void    run_report_put (FILE *out, json_t *whole);

/* Whether a file that begins with `head`, of RUN_HEAD_ROOM bytes or its end, was written by a report or a
 * comparison in this format; any page is taken for one. */
enum { RUN_HEAD_ROOM = 4096 };
bool run_report_is_html(const char *head);
bool run_report_is_json(const char *head);
bool run_report_is_csv (const char *head);
bool run_report_is_md  (const char *head);
#define RUN_COMPARE_MD_FIRST "## Options that differ\n"

/* Words about a run for several formats. */
const char *run_state_text (char out[512], const RunRecord *run);     /* "ended after step 500 of 500" */
const char *run_date_text  (char out[40], double seconds);            /* "2026-11-23 21:04:05 UTC" */
/* The parts of the run's time, in seconds, by name; none are in two. */
enum { RUN_TIME_PARTS = 9 };
typedef struct { const char *name; double seconds; } RunTimePart;
void run_time_parts(RunTimePart part[RUN_TIME_PARTS], const RunRecord *run, double *total);
#endif
