#ifndef CONF_OPTIMIZER_OPTIMIZER_RULES_H
#define CONF_OPTIMIZER_OPTIMIZER_RULES_H
/* What fits an optimizer. */
#include "conf/conf.h"

Status options_fit_optimizer(const Options *o);
#endif
