/* What a tokenizer and a checkpoint add to the options that a person gave. */
#include "cli/setup/setup.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "cli/in_out.h"
#include "cli/setup/tokenizer.h"
#include "compat/compat.h"
#include "conf/value.h"
#include "convert/format.h"
#include "convert/weights/foreign_weights.h"
#include "optim/optimizer.h"
#include "store/checkpoint.h"

/* What a run takes of a checkpoint that lacks these of its parts. */
static void checkpoint_parts(Options *o, unsigned lacks)
{
    o->checkpoint.position = !o->finetune && !(lacks & CHECKPOINT_POSITION);
    o->checkpoint.states   = o->checkpoint.position && !o->no_load_optim && !(lacks & CHECKPOINT_STATES);
}

static void take_position(Options *o, const CheckpointState *state)
{
    o->checkpoint.step = state->step;
    o->checkpoint.updated_samples = state->updated_samples;
    o->checkpoint.step_samples = state->step_samples;
}

void setup_tell_unknown(const char *path, const char *names)
{
    if (*names)
        log_line("%s: these of its arguments are not known here and not read: %s; compare a loss with the "
                 "program that saved it", path, names);
}

Status setup_take_foreign(Options *o, const char *packed, size_t bytes)
{
    ForeignFacts facts;
    o->checkpoint.options = options_hold(o, foreign_weights_unpack(&facts, packed, bytes));
    o->checkpoint.foreign = true;
    o->checkpoint.whole = facts.whole;
    setup_tell_unknown(o->load, facts.unknown);
    if (!setup_trains(o)) return OK;
    checkpoint_parts(o, facts.state.lacks);
    take_position(o, &facts.state);
    if (!o->finetune && !o->no_load_optim && *facts.states_unread)
        return fail(BAD_FILE, "%s; %s continues without its optimizer states", facts.states_unread,
                    "--no-load-optim");
    if (o->checkpoint.position && !facts.counts_samples)
        log_line("%s does not say which samples its run has consumed: the data begin at their first",
                 o->load);
    return OK;
}

/* ---- a run that began with another program's checkpoint ---- */

/* Paths may be relative or lead through links. */
static bool same_foreign(const char *a, const char *b)
{
    if (!a || !b) return false;
    const char *folder[] = { foreign_weights_folder(a), foreign_weights_folder(b) };
    char *real[2] = { NULL, NULL };
    for (int i = 0; i < 2 && folder[0] && folder[1]; i++) real[i] = realpath(folder[i], NULL);
    bool same = !strcmp(a, b) || (real[0] && real[1] && !strcmp(real[0], real[1]));
    free(real[0]);
    free(real[1]);
    return same;
}

Status setup_continue(Options *o)
{
    char path[1024];
    bool found = false;
    CheckpointFacts facts;
    if (o->checkpoint.continued || !setup_trains(o) || !o->save) return OK;
    if (!foreign_weights_folder(o->load)) return OK;
    if (checkpoint_find_silent(o->save, path, &found) != OK || !found) return OK;    /* the lock refuses it */
    TRY(checkpoint_facts(&facts, path));
    json_t *saved = json_loads(facts.state.options, 0, NULL);
    const char *load = json_string_value(json_object_get(saved, option_rows[OPTION_load].name));
    if (same_foreign(load, o->load)) {
        log_line("--save %s holds step %lld of a run that began with --load %s: that run is continued",
                 o->save, (long long)facts.state.step, o->load);
        o->checkpoint.continued = o->save;
        o->finetune = o->no_load_optim = false;             /* they are of the beginning */
    }
    json_decref(saved);
    checkpoint_facts_free(&facts);
    return OK;
}

/* Of another program's checkpoint. */
static Status find_foreign(Options *o)
{
    char  *packed;
    size_t bytes;
    o->checkpoint.path = o->load;
    if (o->checkpoint.options) return OK;                       /* rank 0's, which setup_options has sent */
    TRY(foreign_weights_facts(&packed, &bytes, foreign_weights_folder(o->load)));
    Status status = setup_take_foreign(o, packed, bytes);
    free(packed);
    return status;
}

/* A format that is not read, as in gguf:model, which would otherwise be a directory without a checkpoint. */
static Status refuse_prefix(const char *load)
{
    char   known[128] = "";
    size_t letters    = strspn(load, "abcdefghijklmnopqrstuvwxyz");
    if (letters < 2 || load[letters] != ':' || file_exists(load)) return OK;
    for (int i = 0; i < FORMATS; i++)
        message_item(known, sizeof known, ", ", "%s:", foreign_format_name((ForeignFormat)i));
    return fail(BAD_OPTION, "--load %s: %.*s: is no format that is read; these are %s, and a checkpoint of "
                "jotun has none", load, (int)letters, load, known);
}

/* Whether it is like gpt2, gpt2-xl or meta-llama/Llama-3.2-1B: a published model, or a preset of --model. */
static bool is_published(const char *name)
{
    static const char *const family[] = {
        "gpt2", "distilgpt2", "gpt-neo", "gpt-j", "opt", "bloom", "llama", "tinyllama", "codellama",
        "mistral", "mixtral", "qwen", "gemma", "phi", "pythia", "olmo", "smollm", "falcon",
        "deepseek", "starcoder", "granite", "gpt-oss", "bert", "t5" };
    const char *slash = strchr(name, '/'), *leaf = slash ? slash + 1 : name;
    if (strchr("./~", *name) || strchr(leaf, '/')) return false;
    for (size_t i = 0; i < COUNT(family); i++) {
        size_t letters = strlen(family[i]);
        if (!strncasecmp(leaf, family[i], letters) && !isalpha((unsigned char)leaf[letters])) return true;
    }
    return false;
}

/* A run that begins with new weights where its user meant a model of the hub. A name that --save has too is
 * a directory of this run. */
static Status refuse_hub_name(const Options *o)
{
    if (!setup_trains(o) || file_exists(o->load) || (o->save && !strcmp(o->save, o->load))) return OK;
    if (!is_published(o->load)) return OK;
    return fail(BAD_OPTION, "--load %s: " FOREIGN_NOT_THERE ", and give --load hf:FOLDER; --model takes only "
                "the shape of a published model; a run with new weights leaves --load out", o->load);
}

/* Once, before all that reads it: another run may save meanwhile, and options of one step do not go with
 * weights of another. */
static Status find_checkpoint(Options *o)
{
    char path[1024], copy[1024] = "";
    bool found;
    CheckpointFacts facts;
    if (setup_foreign_folder(o)) return find_foreign(o);
    if (!o->checkpoint.continued) TRY(refuse_prefix(o->load));
    TRY(checkpoint_find(o->checkpoint.continued ? o->checkpoint.continued : o->load, path, &found));
    if (!found && path_join(path, o->load, "config.json") == OK && file_exists(path))
        return fail(BAD_OPTION, "--load %s is a folder of transformers; give --load hf:%s", o->load, o->load);
    if (!found) TRY(refuse_hub_name(o));
    if (!found && o->exit_on_missing && o->command == FOR_TRAIN)
        return fail(BAD_FILE, "--load %s has no checkpoint, and --exit-on-missing-checkpoint was given",
                    o->load);
    if (!found) return OK;              /* the trainer starts from new weights */
    TRY(checkpoint_facts(&facts, path));
    TokenizerRecord tokenizer = facts.state.tokenizer;
    o->checkpoint.path    = options_hold(o, path);
    char *options = compat_saved(facts.state.options);
    o->checkpoint.options = options_hold(o, options);
    free(options);
    checkpoint_parts(o, facts.state.lacks);
    o->checkpoint.loss_scale = o->checkpoint.position ? facts.state.loss_scale.scale : 0;
    take_position(o, &facts.state);
    if (facts.state.given) o->checkpoint.given = options_hold(o, facts.state.given);
    if (facts.state.kernels) o->checkpoint.kernels = options_hold(o, facts.state.kernels);
    if (tokenizer.fingerprint) {
        o->checkpoint.tokenizer   = options_hold(o, tokenizer.name);
        o->checkpoint.fingerprint = options_hold(o, tokenizer.fingerprint);
    }
    Status status = options_typed_by_person(o, OPTION_tokenizer) ? OK
                  : setup_checkpoint_tokenizer(copy, path, &tokenizer);
    if (status == OK && *copy) o->checkpoint.tokenizer_path = options_hold(o, copy);
    checkpoint_facts_free(&facts);
    return status;
}

/* A checkpoint before the tokenizer, which it may name, and both before what is derived from them. */
Status setup_values(Options *o)
{
    char typed[1024];
    if (o->load) snprintf(typed, sizeof typed, "--load %s", o->load);
    TRY(setup_continue(o));
    bool continued = o->checkpoint.continued, foreign = setup_foreign_folder(o);
    bool theirs = continued || foreign;                          /* its model is never given by a person */
    if (theirs && o->model)
        return fail(BAD_OPTION, "--model %s, but the model's shape is that of %s; leave --model out, or "
                    "--load", o->model, typed);
    if (o->load && !theirs) TRY(checkpoint_directory(typed, o->load));
    if (o->load) TRY(find_checkpoint(o));
    if (o->checkpoint.path && o->checkpoint_schedule) TRY(options_take_schedule(o));
    /* The model's shape is the checkpoint's, but for options that a person gives, which judge_with_checkpoint
     * compares. */
    bool takes = o->load && (o->use_checkpoint_args || !setup_trains(o) || theirs);
    if (takes && !o->checkpoint.path)
        return fail(BAD_FILE, "--load %s holds no checkpoint; give the directory that jotun train --save "
                    "wrote", o->load);
    if (takes) TRY(options_from_json(o, o->checkpoint.options, o->checkpoint.path, FOR_CHECKPOINT_ARGS));
    /* How long texts a model without learned positions is for is known from where it came, and --seq-length
     * of a run says nothing of it. */
    bool learned = o->position.value == CHOICE_position_learned_absolute;
    if (o->checkpoint.path && !learned)
        TRY(options_take_saved(o, OPTION_positions, o->checkpoint.options, o->checkpoint.path));
    TRY(setup_take_tokenizer(o));
    TRY(options_derive(o));
    if (o->checkpoint.path && o->checkpoint_schedule) TRY(options_keep_lengths(o));
    /* Rotary embeddings have no end, but what a model was trained on has; beyond learned positions a run is
     * refused. */
    learned = o->position.value == CHOICE_position_learned_absolute;
    if (foreign && setup_trains(o) && !learned && o->sequence > o->positions)
        log_line("--seq-length %lld is more than the %lld positions that the model of %s was made for; it "
                 "has to learn those behind them", (long long)o->sequence, (long long)o->positions, o->load);
    return OK;
}

/* A run resumes with the model that it began with. */
static Status judge_with_checkpoint(Options *o)
{
    char all[8192];
    const char *change = o->checkpoint.change;
    if (!o->checkpoint.path) return OK;
    o->checkpoint.share_states = optimizers_share_states;
    TRY(options_match_json(o, o->checkpoint.options, o->checkpoint.path));
    if (o->checkpoint.position) TRY(setup_compare_rates(o));
    /* The dynamic loss scale is saved, so that the initial one applies only to new runs. */
    char typed[256];
    bool kept = o->fp16 && !(o->loss_scale > 0) && o->checkpoint.loss_scale > 0;
    if (kept && options_typed_by_person(o, OPTION_initial_loss_scale))
        log_line("%s is ignored: the run resumes with the loss scale of its checkpoint, %g",
                 options_typed(typed, sizeof typed, o, OPTION_initial_loss_scale), o->checkpoint.loss_scale);
    if (!change) return OK;
    snprintf(all, sizeof all, "%s%s%s", o->changed ? o->changed : "", o->changed ? "; " : "", change);
    o->changed = options_hold(o, all);
    return OK;
}

Status setup_validate(Options *o)
{
    if (o->load && setup_trains(o)) TRY(judge_with_checkpoint(o));
    return options_validate(o);
}
