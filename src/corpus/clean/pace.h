#ifndef CORPUS_CLEAN_PACE_H
#define CORPUS_CLEAN_PACE_H
/* How far a long piece of work is, and when it will be done: a line now and then. */
#include <stdint.h>

typedef struct { const char *what; int64_t begun, told, from, total; } Pace;     /* total -1: nobody can know */
Pace   pace_begin  (const char *what, int64_t from, int64_t total);      /* what: "clean: reading" */
void   pace_bytes  (Pace *pace, int64_t done);                           /* of total, in bytes */
void   pace_count  (Pace *pace, int64_t done, const char *things);       /* "documents" */
double pace_seconds(const Pace *pace);
#endif
