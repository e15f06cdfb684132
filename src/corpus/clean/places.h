#ifndef CORPUS_CLEAN_PLACES_H
#define CORPUS_CLEAN_PLACES_H
/* What a run reads and what it writes are different files, else a corpus would go under its own clean documents; known
 * before anything is read. */
#include "corpus/clean/clean.h"

Status places_check(const CleanPlan *plan);     /* BAD_OPTION: an option whose file is read too, written twice, or no file */
#endif
