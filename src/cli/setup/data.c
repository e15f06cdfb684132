/* The options of data sets, of the tools that make tokens, and of sampling, as the structs of the modules. */
#include "base/team.h"
#include "cli/setup/setup.h"
#include "cli/in_out.h"

static DataPath data_path_of(const TextList *list) { return (DataPath){ list->text, list->count }; }

static OrderKind order_kind(const Options *o)
{
    switch ((enum ChoiceOf_data_order)o->data_order.value) {
    case CHOICE_data_order_jotun:    return ORDER_JOTUN;
    case CHOICE_data_order_megatron: return ORDER_MEGATRON;
    case CHOICE_data_order_forks:    return ORDER_FORKS;
    }
    NO_SUCH_CHOICE(o->data_order);
}

static SampleBreak sample_break(const Options *o)
{
    switch ((enum ChoiceOf_sample_break)o->sample_break.value) {
    case CHOICE_sample_break_overlapping:  return BREAK_OVERLAPPING;
    case CHOICE_sample_break_none:         return BREAK_NONE;
    case CHOICE_sample_break_complete:     return BREAK_COMPLETE;
    case CHOICE_sample_break_complete_doc: return BREAK_COMPLETE_DOC;
    case CHOICE_sample_break_eos:          return BREAK_EOS;
    }
    NO_SUCH_CHOICE(o->sample_break);
}

/* jotun's own order is computed, so that it has no use for a cache. */
DatasetRules setup_datasets(const Options *o)
{
    OrderKind order = order_kind(o);
    DatasetRules rules = {
        .order = order, .data_path = data_path_of(&o->data_path), .list = o->data_file_list,
        .split_path = { data_path_of(&o->train_data_path), data_path_of(&o->valid_data_path),
                        data_path_of(&o->test_data_path) },
        .cache = order == ORDER_JOTUN ? NULL : o->data_cache_path, .final_epoch_cut = o->final_epoch_cut,
        .surplus = o->surplus, .corpus_shuffled = o->corpus_shuffled, .corpus_blended = o->corpus_blended,
        .breaks = sample_break(o),
    };
    if (!o->several_valid) return rules;
    rules.split_path[SPLIT_VALID] = (DataPath){ 0 };
    rules.valid_sets = o->valid_data_path.count < VALID_SETS_MAX ? o->valid_data_path.count : VALID_SETS_MAX;
    for (int i = 0; i < rules.valid_sets; i++)
        rules.valid_set[i] = (DataPath){ o->valid_data_path.text + i, 1 };
    return rules;
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
