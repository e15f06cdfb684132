/* The options of data sets, of the tools that make tokens, and of sampling, as the structs of the modules. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/team.h"
#include "cli/choice.h"
#include "cli/setup/setup.h"
#include "cli/in_out.h"
#include "conf/value.h"

static DataPath data_path_of(const TextList *list)
{
    return (DataPath){ list->text, list->count, false };
}

static CHOICE_AS( OrderKind, order_kind, data_order,
    TO( CHOICE_data_order_jotun,    ORDER_JOTUN )
    TO( CHOICE_data_order_megatron, ORDER_MEGATRON )
    TO( CHOICE_data_order_forks,    ORDER_FORKS ) )

static CHOICE_AS( SampleBreak, sample_break, sample_break,
    TO( CHOICE_sample_break_overlapping,  BREAK_OVERLAPPING )
    TO( CHOICE_sample_break_none,         BREAK_NONE )
    TO( CHOICE_sample_break_complete,     BREAK_COMPLETE )
    TO( CHOICE_sample_break_complete_doc, BREAK_COMPLETE_DOC )
    TO( CHOICE_sample_break_eos,          BREAK_EOS ) )

/* A file of groups of parts, each in double quotes. */
static Status groups_read(DataPath *out, Options *o, const char *path)
{
    const char *group[VALID_SETS_MAX];
    int         count = 0;
    FileMap     map;
    TRY(file_map(&map, path));
    char *copy = strndup((const char *)map.data, map.size);
    CHECK(copy, "no memory for %s", path);
    char *text  = (char *)(uintptr_t)options_hold(o, copy);
    bool  whole = strlen(text) == map.size;
    free(copy);
    file_unmap(&map);
    for (char *p = text + strspn(text, " \t\r\n"); whole && *p; p += strspn(p, " \t\r\n")) {
        char *end = *p == '"' ? strchr(p + 1, '"') : NULL;
        whole = end && count < VALID_SETS_MAX;
        if (!whole) break;
        group[count++] = p + 1;
        *end = 0;
        p    = end + 1;
    }
    if (!whole || !count)
        return fail(BAD_FILE, "%s: group %d is none: the file has up to %d of \"NAME: WEIGHT START:END"
                    " PREFIX, WEIGHT START:END PREFIX ...\", each in double quotes, with blanks between",
                    path, count + 1, VALID_SETS_MAX);
    *out = (DataPath){ options_hold_bytes(o, group, (size_t)count * sizeof *group), count, true };
    return OK;
}

/* The groups of a split, of which training and test have one at most. */
static Status groups_of(DataPath *out, Options *o, SplitKind split)
{
    const struct { OptionIndex option; const TextList *list; const char *path; } given[SPLITS] = {
        { OPTION_train_parts, &o->train_parts, o->train_parts_file },
        { OPTION_valid_parts, &o->valid_parts, o->valid_parts_file },
        { OPTION_test_parts,  &o->test_parts,  o->test_parts_file } };
    int most = split == SPLIT_VALID ? VALID_SETS_MAX : 1;
    *out = (DataPath){ given[split].list->text, given[split].list->count, true };
    if (given[split].path) TRY(groups_read(out, o, given[split].path));
    if (out->count <= most) return OK;
    return fail(BAD_OPTION, "--%s has %d groups, and may have %d; give fewer",
                option_rows[given[split].option].name, out->count, most);
}

Status setup_groups(const Options *o)
{
    const TextList *list[] = { &o->train_parts, &o->valid_parts, &o->test_parts };
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < list[l]->count; i++) {
            BlendSpec spec;
            TRY(blend_spec_group(&spec, list[l]->text[i]));
            blend_spec_close(&spec);
        }
    return OK;
}

/* Sets of validation, each of a word of the path. */
static void valid_sets(DatasetRules *rules, DataPath path)
{
    rules->split_path[SPLIT_VALID] = (DataPath){ 0 };
    rules->valid_sets = path.count < VALID_SETS_MAX ? path.count : VALID_SETS_MAX;
    for (int i = 0; i < rules->valid_sets; i++)
        rules->valid_set[i] = (DataPath){ path.text + i, 1, path.group };
}

Status setup_valid_names(const char *const **names, const DatasetRules *rules, Options *o)
{
    const char *name[VALID_SETS_MAX];
    *names = o->valid_names.count ? o->valid_names.text : NULL;
    if (!rules->valid_sets || !rules->valid_set[0].group) return OK;
    for (int i = 0; i < rules->valid_sets; i++) {
        const char *group  = rules->valid_set[i].text[0];
        size_t      length = strcspn(group, ":");
        char        text[33];
        if (!length || length >= sizeof text || strcspn(group, "\"\\\n\t") < length)
            return fail(BAD_OPTION, "%.200s: the name before the colon, that of a validation set, has 1 to 32"
                        " characters and no quotes, backslashes or control characters", group);
        snprintf(text, sizeof text, "%.*s", (int)length, group);
        name[i] = options_hold(o, text);
    }
    *names = options_hold_bytes(o, name, (size_t)rules->valid_sets * sizeof *name);
    return OK;
}

/* jotun's own order is computed, so that it has no use for a cache. */
Status setup_datasets(DatasetRules *rules, Options *o)
{
    OrderKind order = order_kind(o);
    *rules = (DatasetRules){
        .order = order, .data_path = data_path_of(&o->data_path), .list = o->data_file_list,
        .split_path = { data_path_of(&o->train_data_path), data_path_of(&o->valid_data_path),
                        data_path_of(&o->test_data_path) },
        .cache = order == ORDER_JOTUN ? NULL : o->data_cache_path, .final_epoch_cut = o->final_epoch_cut,
        .surplus = o->surplus, .corpus_shuffled = o->corpus_shuffled, .corpus_blended = o->corpus_blended,
        .breaks = sample_break(o),
    };
    if (o->several_valid) valid_sets(rules, data_path_of(&o->valid_data_path));
    for (int split = 0; split < SPLITS; split++) {
        DataPath groups;
        TRY(groups_of(&groups, o, (SplitKind)split));
        if (groups.count && split == SPLIT_VALID) valid_sets(rules, groups);
        else if (groups.count) rules->split_path[split] = groups;
    }
    return OK;
}

Sampling setup_sampling(const Options *o)
{
    return (Sampling){ .temperature = o->temperature, .top_p = o->top_p, .top_k = o->top_k,
                       .min_p = o->min_p, .repetition_penalty = o->repetition_penalty,
                       .presence_penalty = o->presence_penalty, .frequency_penalty = o->frequency_penalty,
                       .seed = (uint64_t)o->sampling_seed };
}

TokenizePlan setup_tokenize(const Options *o, const Tokenizer *tokenizer)
{
    return (TokenizePlan){
        .path = o->input.text, .paths = o->input.count, .key = o->json_keys.text, .keys = o->json_keys.count,
        .tokenizer = tokenizer, .append_eod = o->append_eod,
        .skip = o->on_error.value == CHOICE_on_error_skip,
        .workers = o->workers ? (int)o->workers : team_cores(), .line_most = o->document_most,
        .ratio_most = o->ratio_most, .texts = text_rules(o),
    };
}

BpePlan setup_bpe(const Options *o, Team *team)
{
    return (BpePlan){ .vocabulary = o->learned_vocabulary, .least = o->min_frequency, .team = team,
                      .special = o->special_tokens.text, .specials = o->special_tokens.count };
}
