#ifndef CONF_WANTS_H
#define CONF_WANTS_H
/* Options that do nothing without another one: the WANTS rows of options.def. */
#include "conf/rows.h"

/* The first row that is not met for this option, whoever set it; NULL where it has an effect. */
const OptionWants *option_unmet(const Options *o, OptionIndex option);
/* Whether a change of it would be another model: not where it has no effect, and not the number of positions
 * of a model that learns none, which is for exports alone. */
bool option_counts(const Options *o, OptionIndex option);
/* What the option does nothing without, as one types it: "--dedup exact or --near-threshold J". Returns
 * out. */
const char *option_wants_text(char *out, size_t size, const OptionWants *unmet);
/* Whether a person asked for something by it: a flag that is off and a choice's default ask for nothing. */
bool   option_asked(const Options *o, OptionIndex option);
/* BAD_OPTION where a person asked for something that would do nothing; a line in the log for IDLE_WITHOUT
 * and IDLE_BESIDE rows. */
Status options_wants(const Options *o);
Status options_shape_wants(const Options *o);    /* only of options that say what the model is */
#endif
