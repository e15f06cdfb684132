/* Rules of the options of recomputation. */
#include "conf/rules.h"

#include <inttypes.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "conf/conf.h"
#include "conf/layer_pattern.h"
#include "conf/value.h"
#include "conf/wants.h"

int option_recompute_module(const char *word)
{
    static const char *const known[] = { "core_attn", "layernorm", "mlp", "mlp_act", "moe", "moe_act",
                                         "shared_experts" };
    for (int i = 0; i < COUNT(known); i++)
        if (!strcmp(word, known[i])) return i;
    return -1;
}

/* A shared expert's activation is a part of mlp_act too, so that is a part of mlp without experts alone. */
static bool part_of(const Options *o, const char *word, const char *of)
{
    if (!strcmp(of, "moe")) return !strcmp(word, "moe_act") || !strcmp(word, "shared_experts");
    return !strcmp(of, "mlp") && !strcmp(word, "mlp_act") && o->shared_ffn == 0;
}

/* A module that is named again, or is a part of another one, adds nothing. */
static void log_idle_modules(const Options *o)
{
    const TextList *list = &o->recompute_modules;
    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < list->count; j++) {
            bool again = j < i && !strcmp(list->text[i], list->text[j]);
            if (!again && !part_of(o, list->text[i], list->text[j])) continue;
            log_line("%s %s is ignored: it is %s%s", NAMED(OPTION_recompute_modules), list->text[i],
                     again ? "given twice" : "a part of ", again ? "" : list->text[j]);
            break;
        }
}

/* Whether some layer has a dense MLP. */
static Status any_dense(const Options *o, bool *dense)
{
    uint8_t experts[LAYER_PATTERN_MAX];
    *dense = o->experts == 0;
    if (*dense) return OK;
    TRY(options_expert_layers(experts, o));
    for (int64_t l = 0; l < o->layers; l++) *dense |= !experts[l];
    return OK;
}

/* Megatron-LM's modules that this model does not have are refused with the reason. */
Status rule_recompute(const Options *o)
{
    bool dense = true;
    TRY(any_dense(o, &dense));
    for (int i = 0; i < o->recompute_modules.count; i++) {
        const char *word = o->recompute_modules.text[i];
        bool shared = !strcmp(word, "shared_experts");
        if (option_recompute_module(word) < 0)
            return fail(BAD_OPTION, "%s %s: a layer has no such module; give core_attn, layernorm, mlp, "
                        "mlp_act, moe, moe_act or shared_experts", NAMED(OPTION_recompute_modules), word);
        if ((shared || !strncmp(word, "moe", 3)) && o->experts == 0)
            return fail(BAD_OPTION, "%s %s: no layer has experts without --num-experts; give core_attn, "
                        "layernorm, mlp or mlp_act", NAMED(OPTION_recompute_modules), word);
        if (!dense && (!strcmp(word, "mlp") || (!strcmp(word, "mlp_act") && o->shared_ffn == 0)))
            return fail(BAD_OPTION, "%s %s: every layer has experts and none a dense MLP; give moe or "
                        "moe_act, or a --moe-layer-freq that leaves dense layers",
                        NAMED(OPTION_recompute_modules), word);
        if (shared && o->shared_ffn == 0)
            return fail(BAD_OPTION, "%s %s: there is no shared expert; give "
                        "--moe-shared-expert-intermediate-size or leave the word out",
                        NAMED(OPTION_recompute_modules), word);
    }
    log_idle_modules(o);
    if (o->recompute_granularity.value != CHOICE_recompute_granularity_full) {
        if (options_typed_by_person(o, OPTION_recompute_method) && !option_asked(o, OPTION_recompute_method))
            log_line("%s is ignored: it has no effect without --recompute-granularity full",
                     TYPED(OPTION_recompute_method));
        return OK;
    }
    bool    virtual = o->layers_per_chunk > 0;
    int64_t most = virtual ? o->layers_per_chunk
                           : (o->layers + o->pipeline_parallel - 1) / o->pipeline_parallel;
    if (o->recompute_layers <= most) return OK;
    return fail(BAD_OPTION, "%s is more than the layers of a %s; give %" PRId64 " or less",
                TYPED(OPTION_recompute_layers), virtual ? "virtual pipeline stage" : "pipeline stage", most);
}
