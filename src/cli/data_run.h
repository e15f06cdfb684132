#ifndef CLI_DATA_RUN_H
#define CLI_DATA_RUN_H
/* What a run would read of its data: samples, epochs and tokens of each split and of each pair of files. They
 * are counted without building the indices. */
#include "conf/conf.h"

/* Whether --data-path, --train-data-path, --valid-data-path, --test-data-path or --data-file-list is
 * given. */
bool   data_run_asked(const Options *o);
/* Derives and checks the options, then prints to standard output. A split without data is printed as such and
 * is no error. */
Status data_run_show (Options *o);
#endif
