/* Options of a checkpoint of another program. */
#include "cli/setup/foreign.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/message.h"
#include "cli/setup/setup.h"
#include "conf/layer_pattern.h"
#include "conf/rows.h"
#include "conf/wants.h"

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

/* ---- the architecture of llama.cpp that a model is ----
 * It is one where it keeps its rules, and where the options of which the architecture says nothing are those
 * of a model without them. */

/* How many options that count for weights differ; `why`: the first of them. */
static int unsaid(char why[GGUF_WHY], const Options *model, const Options *again)
{
    int  count = 0;
    char here[256], there[256];
    for (int i = 0; i < OPTIONS; i++) {
        bool counts = option_taken(i, FOR_SHAPE) && model->source[i].kind != SOURCE_NOTHING;
        if (!counts || (!option_counts(model, i) && !option_counts(again, i))) continue;
        options_value_text(here, sizeof here, model, i);
        options_value_text(there, sizeof there, again, i);
        if (!strcmp(here, there)) continue;
        if (count++ == 0 && !*why)
            snprintf(why, GGUF_WHY, "it has no --%s %.60s", option_rows[i].name, here);
    }
    return count;
}

/* How far the model is from being one of the architecture. */
static int distance(char why[GGUF_WHY], GgufArchitecture a, const Options *model, const json_t *options,
                    const char *path)
{
    Options     again;
    ModelConfig config = setup_model(model);
    int     count = gguf_architecture_broken(a, options, &config, why);
    json_t *said  = gguf_architecture_said(a, options);
    char   *text  = json_dumps(said, JSON_COMPACT | JSON_REAL_PRECISION(17));
    log_mute(true);                                      /* another architecture may be the model's */
    Status  status = setup_model_options(&again, text ? text : "", path);
    log_mute(false);
    if (status == OK) count += unsaid(why, model, &again);
    else if (count++ == 0) snprintf(why, GGUF_WHY, "%.230s", fail_text());
    options_close(&again);
    free(text);
    json_decref(said);
    return count;
}

Status setup_gguf(GgufArchitecture *a, const Options *model, const json_t *options, const char *path)
{
    char why[GGUF_WHY], nearest[GGUF_WHY] = "";
    int  least = -1;
    for (GgufArchitecture i = 0; i < GGUF_ARCHITECTURES && least != 0; i++) {
        int count = distance(why, i, model, options, path);
        if (least >= 0 && count >= least) continue;
        least = count, *a = i;
        memcpy(nearest, why, sizeof nearest);
    }
    if (least == 0) return OK;
    return fail(BAD_OPTION, "--to gguf: this model is none of the architectures that are written; the "
                "nearest is %s, but %s; --to hf writes a folder for transformers",
                gguf_architecture_name(*a), nearest);
}
