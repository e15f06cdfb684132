#ifndef REPORT_CLEAN_REPORT_H
#define REPORT_CLEAN_REPORT_H
/* The report of `jotun clean` as a page, from its JSON (docs/formats.md). */
#include <stdio.h>
#include "base/status.h"

/* path: of the JSON report; page: the file to write, replaced as a whole. BAD_FILE, IO_FAILED, NO_MEMORY. */
Status clean_report_write(const char *page, const char *path);
#endif
