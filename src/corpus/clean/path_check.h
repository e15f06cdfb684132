#ifndef CORPUS_CLEAN_PATH_CHECK_H
#define CORPUS_CLEAN_PATH_CHECK_H
/* Checks before anything is read that no file is both read and written, and that no two outputs are the
 * same file. Otherwise a corpus would be replaced by its own clean documents. */
#include "corpus/clean/clean_plan.h"

/* BAD_OPTION: an output that is also an input, model, word list or test set; an output that is a directory
 * or device; two options with the same file. Files are compared by device and inode, so links are
 * recognised. */
Status clean_paths_check(const CleanPlan *plan);
#endif
