#ifndef CONF_LAYER_PATTERN_H
#define CONF_LAYER_PATTERN_H
/* Which layers have experts, as Megatron-LM's --moe-layer-freq says it: an integer N, for layers 0, N, 2 N,
 * ...; or a list of a 0 or 1 for each layer, written as [1,0,1], with Python's + and * for joining and
 * repeating and with parentheses: ([0]*3+[1]*2)*4. */
#include <stdint.h>
#include "base/status.h"

enum { LAYER_PATTERN_MAX = 1024 };
/* experts[l] is 1 where layer l of `layers` <= LAYER_PATTERN_MAX has experts. BAD_OPTION where the text is
 * no pattern or is of another number of layers. */
Status layer_pattern(uint8_t experts[LAYER_PATTERN_MAX], const char *text, int64_t layers);
#endif
