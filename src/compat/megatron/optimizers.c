/* Options and defaults of the optimizers of Argonne's fork (get_megatron_optimizer in its
 * megatron/optimizer/__init__.py). */
#include <string.h>
#include "base/array.h"
#include "compat/alcf/agpt.h"
#include "compat/megatron/megatron.h"

/* reads: whether the optimizer reads only these names; otherwise it is the only one that reads them. */
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

/* What the variables of its script do not name. */
static const AgptDefault more_defaults[] = {
    { "sophiag", OPTION_adam_beta1, "0.9" }, { "sophiag", OPTION_adam_beta2, "0.95" },
    { "muon", OPTION_adam_beta1, "0.9" },    { "muon", OPTION_adam_beta2, "0.999" },
    { "muon", OPTION_adam_eps, "1e-12" },
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
    if (!strcmp(word[0], "--muon-nesterov") && count == 2) {
        char *flag[] = {word[0]};
        import_remark(m, o, from, "--muon-nesterov %.60s is on: any value is", word[1]); /* bool of a text */
        import_take(m, o, from, 1, flag);
        return true;
    }
    for (size_t i = 0; i < COUNT(its_options); i++) {
        bool is_it = !strncmp(optimizer, its_options[i].optimizer, strlen(its_options[i].optimizer));
        bool other = its_options[i].passes_over ? is_it && its_optimizer(words) : !is_it;
        if (strncmp(word[0], its_options[i].begins, strlen(its_options[i].begins)) || !other) continue;
        if (its_options[i].passes_over)
            import_remark(m, o, from, "%.100s is ignored: --optimizer %.60s does not read it there", word[0],
                          optimizer);
        else
            import_remark(m, o, from, "%.100s is ignored: it is of --optimizer %s, not of %.60s", word[0],
                          its_options[i].optimizer, optimizer);
        return true;
    }
    return false;
}

static void take_default(Import *m, Options *o, const AgptDefault *row, const char *optimizer,
                         const char *from)
{
    char word[128];
    if (options_said(o, row->option) || !name_in(row->optimizers, optimizer, strcmp)) return;
    snprintf(word, sizeof word, "--%s=%s", option_rows[row->option].name, row->value);
    import_default(m, o, from, word, "a default of this optimizer in Argonne's fork");
}

void optimizers_defaults(Import *m, Options *o, const TextList *words, const char *from)
{
    const char *optimizer = its_optimizer(words);
    for (int i = 0; optimizer && i < agpt_optimizer_defaults_count; i++)
        take_default(m, o, &agpt_optimizer_defaults[i], optimizer, from);
    for (size_t i = 0; optimizer && i < COUNT(more_defaults); i++)
        take_default(m, o, &more_defaults[i], optimizer, from);
}
