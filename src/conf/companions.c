#include "conf/companions.h"
#include <string.h>
#include "base/log.h"
#include "conf/conf.h"
#include "conf/value.h"

static bool given(const Options *o, OptionIndex option) { return o->source[option].kind != SOURCE_NOTHING; }

static bool no_save    (const Options *o) { return !given(o, OPTION_save); }
static bool no_load    (const Options *o) { return !given(o, OPTION_load); }
static bool no_eval    (const Options *o) { return !given(o, OPTION_eval_interval); }
static bool no_rope    (const Options *o) { return o->position.is != WORD_position_rope; }
static bool no_learned (const Options *o) { return o->position.is != WORD_position_learned_absolute; }
static bool no_decay   (const Options *o) { return o->lr_decay_style.is == WORD_lr_decay_style_constant; }
static bool no_list    (const Options *o) { return !given(o, OPTION_data_file_list); }
static bool no_pipeline(const Options *o) { return o->pipeline_parallel == 1; }
static bool no_lang    (const Options *o) { return !given(o, OPTION_lang); }
static bool no_charset (const Options *o) { return !given(o, OPTION_charset); }
static bool no_grades  (const Options *o) { return no_charset(o) || o->charset_mode.is != WORD_charset_mode_graded; }
static bool no_tests   (const Options *o) { return !given(o, OPTION_decontaminate); }
static bool no_near    (const Options *o) { return !given(o, OPTION_near_threshold); }
static bool no_exact   (const Options *o) { return o->dedup.is == WORD_dedup_none; }
static bool no_dedup   (const Options *o) { return no_exact(o) && no_near(o); }
static bool no_sample  (const Options *o) { return !o->dry_run; }

/* passed: Megatron-LM's own scripts give it all the same, so a line says that it does nothing */
typedef struct { OptionIndex option; bool (*idle)(const Options *o); const char *wants; bool passed; } Companion;
static const Companion companions[] = {
    { OPTION_save_interval,       no_save,     "--save DIR", false },
    { OPTION_keep_last,           no_save,     "--save DIR", false },
    { OPTION_exit_interval,       no_save,     "--save DIR", false },
    { OPTION_exit_on_missing,     no_load,     "--load DIR", false },
    { OPTION_use_checkpoint_args, no_load,     "--load DIR", false },
    { OPTION_eval_iters,          no_eval,     "--eval-interval N", false },
    { OPTION_rope_base,           no_rope,     "--position-embedding-type rope", false },
    { OPTION_positions,           no_learned,  "--position-embedding-type learned_absolute", true },
    { OPTION_min_lr,              no_decay,    "--lr-decay-style linear or cosine", false },
    { OPTION_lr_decay_iters,      no_decay,    "--lr-decay-style linear or cosine", false },
    { OPTION_pipeline_schedule,   no_pipeline, "--pipeline-model-parallel-size 2 or more", false },
    { OPTION_corpus_shuffled,     no_list,     "--data-file-list FILE", false },
    { OPTION_corpus_blended,      no_list,     "--data-file-list FILE", false },
    { OPTION_layers_per_chunk,    no_pipeline, "--pipeline-model-parallel-size 2 or more", false },
    { OPTION_lang_threshold,      no_lang,     "--lang L", false },
    { OPTION_charset_mode,        no_charset,  "--charset NAMES", false },
    { OPTION_emoji,               no_charset,  "--charset NAMES", false },
    { OPTION_charset_parenthesis, no_grades,   "--charset NAMES --charset-mode graded", false },
    { OPTION_charset_line,        no_grades,   "--charset NAMES --charset-mode graded", false },
    { OPTION_charset_lines,       no_grades,   "--charset NAMES --charset-mode graded", false },
    { OPTION_decontaminate_words, no_tests,    "--decontaminate FILE", false },
    { OPTION_decontaminate_by,    no_tests,    "--decontaminate FILE", false },
    { OPTION_near_bands,          no_near,     "--near-threshold J", false },
    { OPTION_near_rows,           no_near,     "--near-threshold J", false },
    { OPTION_near_words,          no_near,     "--near-threshold J", false },
    { OPTION_dedup_normalization, no_exact,    "--dedup exact, lines or paragraphs", false },
    { OPTION_clusters,            no_dedup,    "--dedup exact or --near-threshold J", false },
    { OPTION_pairs,               no_dedup,    "--dedup exact or --near-threshold J", false },
    { OPTION_sample,              no_sample,   "--dry-run", false },
    { OPTION_verbose,             no_sample,   "--dry-run", false },
};

static const Companion *idle(const Options *o, OptionIndex option)
{
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++)
        if (companions[i].option == option && companions[i].idle(o)) return &companions[i];
    return NULL;
}

const char *option_idle(const Options *o, OptionIndex option)
{
    const Companion *c = idle(o, option);
    return c ? c->wants : NULL;
}

/* A flag that is off and the usual choice ask for nothing. */
static bool asks(const Options *o, OptionIndex option)
{
    const OptionRow *row = &option_rows[option];
    const void *field = option_field_of(o, option);
    if (!options_typed_by_person(o, option)) return false;
    if (row->kind == KIND_FLAG)   return *(const OptionFLAG *)field;
    if (row->kind == KIND_CHOICE) return strcmp(((const OptionCHOICE *)field)->word, row->text) != 0;
    return true;
}

static Status only_one_look(const Options *o)
{
    static const OptionIndex look[] = { OPTION_dry_run, OPTION_draw_schedule, OPTION_schedule_svg };
    int first = -1;
    for (size_t i = 0; i < sizeof look / sizeof look[0]; i++) {
        if (!asks(o, look[i])) continue;
        if (first >= 0)
            return fail(BAD_OPTION, "%s and %s: each shows one thing and stops; leave one out",
                        o->source[first].name, o->source[look[i]].name);
        first = look[i];
    }
    return OK;
}

Status options_companions(const Options *o)
{
    char said[256];
    for (int i = 0; i < OPTIONS; i++) {
        const Companion *c = asks(o, i) ? idle(o, i) : NULL;
        if (c && c->passed)
            log_line("%s is passed over: it does nothing without %s", options_typed(said, sizeof said, o, i), c->wants);
        else if (c)
            return fail(BAD_OPTION, "%s does nothing without %s; give that or leave it out",
                        options_typed(said, sizeof said, o, i), c->wants);
    }
    return only_one_look(o);
}
