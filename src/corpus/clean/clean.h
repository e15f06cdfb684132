#ifndef CORPUS_CLEAN_CLEAN_H
#define CORPUS_CLEAN_CLEAN_H
/* Raw corpora to clean documents of one language.
 *
 *   gather   files -> blocks -> workers: record, charset, language, quality, contamination -> store, in the order of the inputs
 *   settle   over all that is in the store: exact duplicates, then near ones; the first stays
 *   write    what is left, in order, to output files; dropped documents, clusters, pairs where asked
 *
 * What is made does not depend on the number of workers, on memory, or on where a run was killed and started again.   */
#include "corpus/clean/clean_plan.h"

Status clean_run(const CleanPlan *plan);            /* prints the table on standard output */
#endif
