#ifndef CONF_RULES_H
#define CONF_RULES_H
/* Rules that have files of their own, for conf/rules.c. */
#include "conf/rows.h"

/* --hierarchical-context-parallel-sizes are two numbers whose product is the context-parallel size, and what
 * exchanges heads divides those of a tensor-parallel rank. */
Status rule_context(const Options *o);
Status rule_window (const Options *o);           /* --window-size is L,R, and R is 0 */
/* Rotary embeddings turn pairs of channels, at most ROPE_CHANNELS_MOST, and have one kind of scaling. */
enum { ROPE_CHANNELS_MOST = 512 };
Status rule_rope   (const Options *o);
/* The modules are those of a layer of this model, the layers at most those of a stage. A module that is a
 * part of another one is ignored with a word. */
Status rule_recompute(const Options *o);
Status rule_optimizer(const Options *o);
#endif
