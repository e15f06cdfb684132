#ifndef REPORT_RUN_LAYOUT_H
#define REPORT_RUN_LAYOUT_H
/* The parallel layout of a start in words. */
#include <jansson.h>

enum { RUN_LAYOUT_ROOM = 200 };
/* "tp 2, pp 2 by 1f1b, dp 4, ZeRO 1" of the facts of a start; "": they name none */
const char *run_layout_text(char out[RUN_LAYOUT_ROOM], const json_t *start);
#endif
