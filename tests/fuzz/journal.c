/* Any bytes as the journal or the metrics of a run: read, and written in every format without a fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "report/run_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void written(void (*write)(FILE *out, const RunReport *report), const RunReport *report)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *out = open_memstream(&text, &size);
    write(out, report);
    fclose(out);
    /* The scripts of a page are its own; what an input says of one is text. */
    if (!strncmp(text, "<!DOCTYPE", 9) && strstr(text, "<script>window")) abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char path[64];
    RunRecord run[2];
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d.jsonl", (int)getpid());
    FILE *out = fopen(path, "w");
    if (!out || fwrite(data, 1, bytes, out) != bytes || fclose(out) != 0) return 0;
    if (run_record_read(&run[0], path) == OK && run_record_read(&run[1], path) == OK) {
        const RunReport one = { run, 1, 10 }, two = { run, 2, 0 };
        written(run_report_html, &one);
        written(run_report_json, &one);
        written(run_report_csv,  &one);
        written(run_report_md,   &one);
        written(run_compare_html, &two);
        written(run_compare_md,   &two);
        run_record_free(&run[1]);
    }
    run_record_free(&run[0]);
    unlink(path);
    return 0;
}
