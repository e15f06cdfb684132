/* Which options of generation exclude each other. */
#include "conf/generation/generation.h"
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "conf/conf.h"
#include "conf/value.h"

/* Those up to SAMPLINGS are of sampling. */
static const OptionIndex settings[] = { OPTION_temperature, OPTION_top_k, OPTION_top_p, OPTION_min_p,
    OPTION_sampling_seed, OPTION_repetition_penalty, OPTION_presence_penalty, OPTION_frequency_penalty,
    OPTION_length_penalty };
enum { SETTINGS = COUNT(settings), SAMPLINGS = SETTINGS - 1 };

/* "top_p" of "top-p" */
static const char *member_name(char out[64], OptionIndex option)
{
    snprintf(out, 64, "%s", option_rows[option].name);
    for (char *c = out; *c; c++)
        if (*c == '-') *c = '_';
    return out;
}

int generation_setting(const char *key)
{
    char name[64];
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(key, member_name(name, settings[i])) == 0) return i;
    return -1;
}

unsigned generation_typed(const Options *o)
{
    unsigned typed = 0;
    for (int i = 0; i < SETTINGS; i++) typed |= (unsigned)options_typed_by_person(o, settings[i]) << i;
    return typed;
}

/* ---- requests ---- */

/* "top_p" with its quotes where the line gave it, else --top-p */
static const char *setting_said(char out[72], const RequestSettings *r, int setting)
{
    char name[64];
    if (r->members >> setting & 1) snprintf(out, 72, "\"%s\"", member_name(name, settings[setting]));
    else                           snprintf(out, 72, "--%s", option_rows[settings[setting]].name);
    return out;
}

Status rule_request(const RequestSettings *r)
{
    char said[72];
    Status bad = r->line ? BAD_FILE : BAD_OPTION;
    const char *line = r->line ? r->line : "", *colon = r->line ? ": " : "";
    const char *beams = r->line ? "num_beams" : "--num-beams";
    bool idle = r->beams == 0 && r->members >> SAMPLINGS & 1;
    if (idle)
        return fail(bad, "%s%s%s has no effect without num_beams 1 or more", line, colon,
                    setting_said(said, r, SAMPLINGS));
    if (r->beams == 0) return OK;
    for (int i = 0; i < SAMPLINGS; i++)
        if ((r->typed | r->members) >> i & 1)
            return fail(bad, "%s%s%s with beam search is not built, which draws nothing here; leave it out, "
                        "or %s", line, colon, setting_said(said, r, i), beams);
    if (r->texts > 1)
        return fail(bad, "%s%s--num-return-sequences %lld with beam search is not built, which makes one "
                    "text; leave it out, or %s", line, colon, (long long)r->texts, beams);
    if (r->logprobs > 0)
        return fail(bad, "%s%slogprobs %lld asks for other tokens' log-probabilities, of which beam search "
                    "has none; give 0 for those of its tokens", line, colon, (long long)r->logprobs);
    return OK;
}

/* ---- options ---- */

/* Of all commands that generate. */
static Status rule_weights(const Options *o)
{
    if (o->weights.value == CHOICE_weights_int8 && o->zero_stage == 3)
        return fail(BAD_OPTION, "--weights int8 rounds weights that a rank has, and --zero-stage 3 shards "
                    "them; leave out one of these");
    return OK;
}

/* A request that can never enter the queue would get 429 with Retry-After, however often it comes. */
static Status rule_serve(const Options *o)
{
    if (o->max_request_texts <= o->max_queue) return OK;
    return fail(BAD_OPTION, "%s is more than %s, where such a request would never have room; give "
                "--max-request-texts %lld or less, or --max-queue %lld or more",
                TYPED(OPTION_max_request_texts), TYPED(OPTION_max_queue), (long long)o->max_queue,
                (long long)o->max_request_texts);
}

Status rule_generate(const Options *o)
{
    int prompts = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->prompt_jsonl != NULL);
    TRY(rule_weights(o));
    if (o->command == FOR_SERVE) return rule_serve(o);
    if (prompts > 1)
        return fail(BAD_USAGE, "jotun generate takes one of --prompt S, --prompt-file FILE and "
                    "--prompt-jsonl FILE, not several");
    for (int i = 0; i < o->stop.count; i++)
        if (!*o->stop.text[i])
            return fail(BAD_OPTION, "--stop has an empty text, which every text begins with; give texts of "
                        "at least one character");
    TRY(rule_request(&(RequestSettings){ .typed = generation_typed(o), .beams = o->beams,
                                         .logprobs = o->logprobs, .texts = o->return_sequences }));
    if (o->save_logits && (o->return_sequences > 1 || o->beams > 0))
        return fail(BAD_OPTION, "--save-logits writes the logits of one text of each prompt; leave out "
                    "--num-return-sequences and --num-beams");
    return OK;
}
