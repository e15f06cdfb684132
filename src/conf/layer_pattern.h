#ifndef CONF_LAYER_PATTERN_H
#define CONF_LAYER_PATTERN_H
/* Which layers have something, as Megatron-LM's --moe-layer-freq and --window-attn-skip-freq say it: an
 * integer N; or a list of a 0 or 1 for each layer, written as [1,0,1], with Python's + and * for joining
 * and repeating and with parentheses: ([0]*3+[1]*2)*4. */
#include <stdint.h>
#include "conf/rows.h"

/* What N means: of every N layers the first has it, the last, or all but the last. */
typedef enum { LAYERS_FIRST, LAYERS_LAST, LAYERS_ALL_BUT_LAST } LayerNumber;
/* option: its name, as typed; with: the option because of which layers are counted; cure: what to give
 * instead of a number that cannot be */
typedef struct {
    const char *option, *text, *with, *cure;
    int64_t     layers;
    LayerNumber number;
} LayerPattern;

enum { LAYER_PATTERN_MAX = 1024 };
/* layer[l] is 1 where layer l of a.layers <= LAYER_PATTERN_MAX has it. BAD_OPTION where the text is no
 * pattern or is of another number of layers. */
Status layer_pattern(uint8_t layer[LAYER_PATTERN_MAX], LayerPattern a);

/* The layers that have experts, that have a sliding window, that have no RoPE */
Status options_expert_layers (uint8_t layer[LAYER_PATTERN_MAX], const Options *o);
Status options_window_layers (uint8_t layer[LAYER_PATTERN_MAX], const Options *o);
Status options_no_rope_layers(uint8_t layer[LAYER_PATTERN_MAX], const Options *o);
#endif
