#ifndef CORPUS_CLEAN_ETA_H
#define CORPUS_CLEAN_ETA_H
/* How far a long piece of work is, and when it will be done: a line now and then. */
#include <stdint.h>

typedef struct { const char *what; int64_t begun, told, from, total; } Eta;     /* total -1: nobody can know */
Eta   eta_begin  (const char *what, int64_t from, int64_t total);      /* what: "clean: reading" */
void   eta_bytes  (Eta *eta, int64_t done);                           /* of total, in bytes */
void   eta_count  (Eta *eta, int64_t done, const char *things);       /* "documents" */
double eta_seconds(const Eta *eta);
#endif
