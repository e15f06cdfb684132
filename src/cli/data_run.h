#ifndef CLI_DATA_RUN_H
#define CLI_DATA_RUN_H
/* What a run would see of its data: samples, epochs and tokens of each split and of each pair, counted and not made */
#include "conf/conf.h"

bool   data_run_asked(const Options *o);          /* --data-path or one of its kin is given */
Status data_run_show (Options *o);
#endif
