/* Options of a checkpoint of another program. */
#include "cli/setup/foreign.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"
#include "cli/setup/parse.h"
#include "conf/layer_pattern.h"

/* As jotun config sees them, which needs no data. */
Status setup_model_options(Options *o, const char *json, const char *path)
{
    char  *now    = compat_saved(json);
    Status status = setup_parse(o, FOR_CONFIG, 0, NULL);
    if (status == OK) status = options_from_json(o, now, path, FOR_CHECKPOINT_ARGS);
    free(now);
    if (status == OK) status = options_derive(o);
    if (status == OK) status = options_validate(o);
    return status;
}

/* `all`: the word that means all layers, which stays. */
static Status layers_canonical(Options *o, OptionIndex option, const char *text, const char *all,
                             Status (*layers_of)(uint8_t layer[LAYER_PATTERN_MAX], const Options *o))
{
    uint8_t layer[LAYER_PATTERN_MAX];
    char    list[2 * LAYER_PATTERN_MAX + 2] = "[";
    if (!strcmp(text, all) || o->layers > LAYER_PATTERN_MAX) return OK;
    TRY(layers_of(layer, o));
    for (int64_t l = 0; l < o->layers; l++)
        message_add(list, sizeof list, "%s%d", l ? "," : "", layer[l]);
    message_add(list, sizeof list, "]");
    return options_set(o, option, list, o->source[option]);
}

Status setup_model_canonical(Options *o)
{
    char best[24];
    TRY(layers_canonical(o, OPTION_window_skip, o->window_skip, "0", options_window_layers));
    TRY(layers_canonical(o, OPTION_no_rope_freq, o->no_rope_freq, "0", options_no_rope_layers));
    if (o->experts > 0)
        TRY(layers_canonical(o, OPTION_moe_layer_freq, o->moe_layer_freq, "1", options_expert_layers));
    if (o->router_group_topk == 0 || o->router_group_best > 0) return OK;
    snprintf(best, sizeof best, "%" PRId64, o->router_topk / o->router_group_topk);
    return options_set(o, OPTION_router_group_best, best, o->source[OPTION_router_group_best]);
}
