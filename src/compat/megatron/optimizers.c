/* Options and defaults of the optimizers of Argonne's fork (get_megatron_optimizer in its
 * megatron/optimizer/__init__.py). */
#include "compat/megatron/optimizers.h"
#include <string.h>
#include "base/array.h"
#include "compat/megatron/beside.h"

/* reads: whether the optimizer reads these names alone; else it is the only one that reads them. */
static const struct {
    const char *begins, *optimizer;
    bool        passes_over;
} its_options[] = {
    {"--dshampooadamw-", "dshampooadamw", false},
    {"--sophiag-", "sophiag", false},
    {"--muonadamw-", "muon", false},
    {"--muonclip-", "muonclip", false},
    {"--ademamix-", "ademamix", false},
    {"--adam-", "sophiag", true},
    {"--adam-", "muon", true},
};

/* Rows of agpt.def by the optimizer, and what its variables do not name. */
static const struct {
    const char *variable, *optimizers, *option, *text;
} its_defaults[] = {
#define WHERE(id, values, option, text) {#id, values, option, text},
#include "compat/dialects.def"
    {"OPT", "sophiag", "adam-beta1", "0.9"}, {"OPT", "sophiag", "adam-beta2", "0.95"},
    {"OPT", "muon", "adam-beta1", "0.9"},    {"OPT", "muon", "adam-beta2", "0.999"},
    {"OPT", "muon", "adam-eps", "1e-12"},
};

/* A script that runs DeepSpeed with an optimizer that its other forks do not have; NULL: it does not. */
static const char *its_optimizer(const TextList *words)
{
    const char *optimizer = given_value(words, "--optimizer");
    bool        deepspeed = false;
    for (int i = 0; i < words->count; i++) deepspeed |= !strncmp(words->text[i], "--deepspeed", 11);
    bool common = !optimizer || !strcmp(optimizer, "adam") || !strcmp(optimizer, "sgd");
    return deepspeed && !common ? optimizer : NULL;
}

bool optimizers_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word)
{
    const char *given = given_value(words, "--optimizer"), *optimizer = given ? given : "adam";
    char        why[IMPORT_LINE];
    if (!strcmp(word[0], "--muon-nesterov") && count == 2) {
        char *flag[] = {word[0]};
        snprintf(why, sizeof why, "--muon-nesterov %.60s is on: any value is", word[1]); /* bool of a text */
        import_remark(m, o, from, why);
        import_take(m, o, from, 1, flag);
        return true;
    }
    for (size_t i = 0; i < COUNT(its_options); i++) {
        bool is_it = !strncmp(optimizer, its_options[i].optimizer, strlen(its_options[i].optimizer));
        bool other = its_options[i].passes_over ? is_it && its_optimizer(words) : !is_it;
        if (strncmp(word[0], its_options[i].begins, strlen(its_options[i].begins)) || !other) continue;
        if (its_options[i].passes_over)
            snprintf(why, sizeof why, "%.100s is ignored: --optimizer %.60s does not read it there", word[0],
                     optimizer);
        else
            snprintf(why, sizeof why, "%.100s is ignored: it is of --optimizer %s, not of %.60s", word[0],
                     its_options[i].optimizer, optimizer);
        import_remark(m, o, from, why);
        return true;
    }
    return false;
}

void optimizers_defaults(Import *m, Options *o, const TextList *words, const char *from)
{
    const char *optimizer = its_optimizer(words);
    char        word[128];
    for (size_t i = 0; optimizer && i < COUNT(its_defaults); i++) {
        const char *found  = strstr(its_defaults[i].optimizers, optimizer);
        char        after  = found ? found[strlen(optimizer)] : 'x';
        int         option = option_find(its_defaults[i].option, FOR_TRAIN);
        bool        whole  = found && (after == 0 || after == ' ') &&
                     (found == its_defaults[i].optimizers || found[-1] == ' ');
        if (strcmp(its_defaults[i].variable, "OPT") || !whole || options_said(o, (OptionIndex)option))
            continue;
        snprintf(word, sizeof word, "--%s=%s", its_defaults[i].option, its_defaults[i].text);
        import_default(m, o, from, word, "a default of this optimizer in Argonne's fork");
    }
}
