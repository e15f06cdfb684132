/* A model is one of an architecture where it keeps its rules, and where the options of which the architecture
 * says nothing are those of a model without them. */
#include "cli/setup/gguf.h"
#include <string.h>
#include "base/log.h"
#include "cli/setup/foreign.h"
#include "conf/rows.h"
#include "conf/wants.h"

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
    return fail(BAD_OPTION,
                "--to gguf: this model is none of the architectures that are written; the nearest is %s, but "
                "%s; --to hf writes a folder for transformers",
                gguf_architecture_name(*a), nearest);
}
