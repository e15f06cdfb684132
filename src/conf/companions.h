#ifndef CONF_COMPANIONS_H
#define CONF_COMPANIONS_H
/* Options which do something only beside another. */
#include "conf/options.h"

/* What this option does nothing without, as one would type it: "--save DIR"; NULL where it does something */
const char *option_idle(const Options *o, OptionIndex option);
/* BAD_OPTION where a person asked for something that would do nothing */
Status options_companions(const Options *o);
#endif
