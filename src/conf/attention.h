#ifndef CONF_ATTENTION_H
#define CONF_ATTENTION_H
/* Rules of the options of attention and its positions, for conf/rules.c. */
#include "conf/rows.h"

/* --hierarchical-context-parallel-sizes are two numbers whose product is the context-parallel size, and what
 * exchanges heads divides those of a tensor-parallel rank. */
Status rule_context(const Options *o);
Status rule_window (const Options *o);           /* --window-size is L,R, and R is 0 */
/* Rotary embeddings turn pairs of channels, at most ROPE_CHANNELS_MOST, and have one kind of scaling. */
enum { ROPE_CHANNELS_MOST = 512 };
Status rule_rope   (const Options *o);
#endif
