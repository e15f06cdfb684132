#ifndef CORPUS_CLEAN_PATH_CHECK_H
#define CORPUS_CLEAN_PATH_CHECK_H
/* What a run reads and what it writes are different files, else a corpus would go under its own clean documents; known
 * before anything is read. */
#include "corpus/clean/clean_plan.h"

Status clean_paths_check(const CleanPlan *plan);     /* BAD_OPTION: an option whose file is read too, written twice, or no file */
#endif
