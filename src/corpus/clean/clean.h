#ifndef CORPUS_CLEAN_CLEAN_H
#define CORPUS_CLEAN_CLEAN_H
/* The command `clean`: raw corpora in, clean documents of one language out. A run has three stages:
 *
 *   scan      files -> blocks -> workers: record, charset, language, quality, contamination -> document
 *             store, in the order of the inputs (scan.h)
 *   resolve   over all documents of the store: exact duplicates, then near-duplicates; the first of each
 *             set is kept (resolve_duplicates.h)
 *   write     the kept documents, in order, to the output files; on request also dropped documents,
 *             clusters and pairs (write.h)
 *
 * The output depends neither on the number of workers nor on the memory limit nor on whether a run was
 * killed and resumed. */
#include "corpus/clean/clean_plan.h"

/* Runs all three stages and prints the table of counts on standard output. Progress is kept in
 * OUTPUT.work, so that the same command resumes after a kill; the directory is removed after success.
 * INTERRUPTED: *plan->stop was set, progress is saved. BAD_OPTION: paths that collide, or a work directory
 * that belongs to other options or inputs. BAD_FILE, IO_FAILED, NO_MEMORY: as the message says. */
Status clean_run(const CleanPlan *plan);
#endif
