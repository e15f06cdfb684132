#ifndef CORPUS_CLEAN_WRITE_H
#define CORPUS_CLEAN_WRITE_H
/* The last part of a run: what stays, in the order of the inputs, to files that come whole or not at all; and what is told
 * of the rest. tally gets what duplicates are, what is kept and what is written.                                      */
#include "corpus/clean/judge.h"
#include "corpus/clean/settle.h"
#include "corpus/clean/stash.h"

typedef struct { int64_t clusters, largest, files; } Written;
/* Of the output the file of that number; where it is not cut, the only one: "sv.jsonl.zst" is "sv-00007.jsonl.zst" */
Status write_path(char *out, size_t size, const CleanPlan *plan, int64_t number);
Status write_all(Written *written, Tally *tally, const Judge *judge, const Stash *stash, const Settled *settled);
#endif
