#ifndef CONF_RECOMPUTE_H
#define CONF_RECOMPUTE_H
/* Rules of the options of recomputation, for conf/rules.c. */
#include "conf/rows.h"

/* The modules are those of a layer of this model, the layers at most those of a stage. A module that is a
 * part of another one is ignored with a word. */
Status rule_recompute(const Options *o);
#endif
