/* Which options of generation exclude each other. */
#include "conf/generation/generation.h"
#include "conf/conf.h"

/* Of all commands that generate. */
static Status rule_weights(const Options *o)
{
    if (o->weights.value == CHOICE_weights_int8 && o->zero_stage == 3)
        return fail(BAD_OPTION, "--weights int8 rounds weights that a rank has, and --zero-stage 3 shards "
                    "them; leave out one of these");
    return OK;
}

Status rule_generate(const Options *o)
{
    int prompts = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->prompt_jsonl != NULL);
    static const OptionIndex of_sampling[] = { OPTION_temperature, OPTION_top_k, OPTION_top_p, OPTION_min_p,
        OPTION_sampling_seed, OPTION_repetition_penalty, OPTION_presence_penalty, OPTION_frequency_penalty,
        OPTION_return_sequences };
    TRY(rule_weights(o));
    if (prompts > 1)
        return fail(BAD_USAGE, "jotun generate takes one of --prompt S, --prompt-file FILE and "
                    "--prompt-jsonl FILE, not several");
    for (size_t i = 0; o->beams > 0 && i < sizeof of_sampling / sizeof *of_sampling; i++)
        if (options_typed_by_person(o, of_sampling[i]))
            return fail(BAD_OPTION, "--%s with beam search is not built, which draws nothing here; leave it "
                        "out, or --num-beams", option_rows[of_sampling[i]].name);
    if (o->beams > 0 && o->logprobs > 0)
        return fail(BAD_OPTION, "--logprobs %lld asks for other tokens' log-probabilities, of which beam "
                    "search has none; give --logprobs 0 for those of its tokens", (long long)o->logprobs);
    if (o->save_logits && (o->return_sequences > 1 || o->beams > 0))
        return fail(BAD_OPTION, "--save-logits writes the logits of one text of each prompt; leave out "
                    "--num-return-sequences and --num-beams");
    return OK;
}
