/* Megatron-LM 1 (before December 2020) and its forks: DeepSpeedExamples' Megatron-LM v1.1.5, EleutherAI's
 * megatron-3d. Only they have --batch-size; later versions refuse it (validate_args). Their defaults and
 * their schedule differ from those of version 2, of which jotun has the names. */
#include "compat/megatron/megatron.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

/* What no version has together is of none. */
static bool is_version1(const TextList *words)
{
    return given_value(words, "--batch-size") && !given_value(words, "--micro-batch-size") &&
           !given_value(words, "--global-batch-size");
}

/* Whose GELU is by tanh; F.gelu is by erf. */
static bool has_tanh(const TextList *words)
{
    return given_flag(words, "--bias-gelu-fusion") || given_flag(words, "--openai-gelu");
}

/* What get_model and train_step make of them (megatron/training.py). */
static const struct {
    const char *name, *ours;
} NAMES[] = {
    {"--batch-size", "--micro-batch-size"},                  /* of a model instance, not of the whole step */
    {"--gas", "--gradient-accumulation-steps"},
    {"--pipe-parallel-size", "--pipeline-model-parallel-size"},
    {"--warmup", "--lr-warmup-fraction"},                    /* x lr-decay-iters, or else train-iters */
};

bool version1_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word)
{
    char   text[256], name[] = "--glu-activation", kind[] = "geglu";
    char  *takes[] = {text}, *gate[] = {name, kind};
    size_t letters = strcspn(word[0], "=");
    if (!is_version1(words)) return false;
    if (!strcmp(word[0], "--bias-gelu-fusion") && count == 1) {
        import_remark(m, o, from, "--bias-gelu-fusion of Megatron-LM 1 is GELU by tanh, the default here");
        return true;
    }
    if (!strcmp(word[0], "--geglu") && count == 1) {          /* of megatron-3d, of width 4 x hidden size */
        if (!has_tanh(words)) return beside_take(m, o, words, from, 2, gate);
        import_refuse(m, o, from, "--geglu with --bias-gelu-fusion or --openai-gelu is a gate by tanh, which "
                      "is not written here; leave the second out");
        return true;
    }
    for (size_t i = 0; i < COUNT(NAMES); i++) {
        const char *value = word[0][letters] ? word[0] + letters + 1 : count == 2 ? word[1] : NULL;
        if (strlen(NAMES[i].name) != letters || strncmp(word[0], NAMES[i].name, letters) || !value) continue;
        if (!strcmp(NAMES[i].name, "--pipe-parallel-size") && !strcmp(value, "0")) {
            import_remark(m, o, from, "--pipe-parallel-size 0 of Megatron-LM 1 is one stage, the default");
            return true;
        }
        snprintf(text, sizeof text, "%s=%.200s", NAMES[i].ours, value);
        import_remark(m, o, from, "%s of Megatron-LM 1 is %s", NAMES[i].name, NAMES[i].ours);
        import_take(m, o, from, 1, takes);
        return true;
    }
    return false;
}

void version1_defaults(Import *m, Options *o, const TextList *words, const char *from)
{
    bool data  = options_said(o, OPTION_data_path);
    if (!is_version1(words)) return;
    if (!given_value(words, "--warmup"))
        import_default(m, o, from, "--lr-warmup-fraction=0.01",
                       "Megatron-LM 1 warms up over a hundredth of the decay");
    import_default(m, o, from, "--lr-schedule-rule=clipped", "Megatron-LM 1 has a schedule of its own");
    if (data && !options_said(o, OPTION_data_order))
        import_default(m, o, from, "--data-order=megatron-forks",
                       "Megatron-LM 1 orders samples as the forks do");
    /* Its data sets are shuffled over all epochs at once (_build_index_mappings of gpt2_dataset.py). */
    if (data && !options_said(o, OPTION_final_epoch_cut))
        import_default(m, o, from, "--final-epoch-cut=0", "Megatron-LM 1 has no last epoch of its own");
    /* ParallelMLP: F.gelu, if nothing is fused with it. */
    if (!has_tanh(words) && !options_said(o, OPTION_gelu_approximate))
        import_default(m, o, from, "--gelu-approximate=none",
                       "Megatron-LM 1 has GELU by erf where it is not fused");
}
