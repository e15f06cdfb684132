#ifndef CONF_GENERATION_H
#define CONF_GENERATION_H
/* Rules of the options of generation, for conf/rules.c. */
#include "conf/rows.h"

/* One source of prompts; beam search takes no options of sampling. */
Status rule_generate(const Options *o);
#endif
