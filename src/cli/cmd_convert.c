/* jotun convert --from FORMAT --to FORMAT --input PATH --output PATH: checkpoints of other programs. The
 * module convert reads, gathers and writes; here formats are chosen, and options become the model that both
 * sides describe. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"
#include "base/message.h"
#include "base/seam.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/setup/foreign.h"
#include "cli/setup/tokenizer.h"
#include "cli/signals.h"
#include "conf/rows.h"
#include "conf/value.h"
#include "convert/family.h"
#include "convert/format.h"
#include "convert/gguf/gguf.h"
#include "convert/hf_write.h"
#include "convert/weights/foreign_weights.h"
#include "store/checkpoint.h"

/* A conversion of the command: its own options, those of the model, and when it began. */
typedef struct {
    const Options *o;
    Options        model;
    ForeignModel   from;
    const char    *tokenizer;              /* that is written: a path, bytes or none */
    ConvertRun     run;
    int64_t        begun, last_report;     /* clock in nanoseconds */
} ConvertTask;

/* ---- progress ---- */

static void progress(void *context, int64_t done, int64_t total)
{
    ConvertTask *c = context;
    char     so_far[24], all[24];
    double   seconds = seam_seconds_since(c->begun);
    if (seam_seconds_since(c->last_report) < (log_terminal() ? 0.2 : 10)) return;
    c->last_report = seam.clock();
    log_progress("convert: %s of %s, %.1f MB/s", log_bytes(so_far, (double)done),
                 log_bytes(all, (double)total), (double)done / seconds * 1e-6);
}

/* Also what is too large for the type that is written. */
static void report_not_finite(const ConvertTask *c)
{
    char others[80] = "";
    const NotFinite *found = &c->run.not_finite;
    if (!found->first) return;
    if (found->tensors > 1)
        snprintf(others, sizeof others, ", as are %lld of %d other tensors",
                 (long long)(found->elements - found->in_first), found->tensors - 1);
    log_line("convert: warning: %lld elements of '%s' are NaN or infinite%s; they are written as they are%s",
             (long long)found->in_first, found->first->as.name, others,
             c->o->convert_type.value == CHOICE_convert_type_f16 ? ", and those above 65504 as infinity"
                                                                 : "");
}

static void report(const ConvertTask *c)
{
    char   bytes[24], time[24];
    double seconds = seam_seconds_since(c->begun);
    log_progress_end();
    log_line("convert: %s of weights, %d tensors in %s, %.1f MB/s: %s",
             log_bytes(bytes, (double)c->run.total), c->run.plan->tensors, log_time(time, seconds),
             (double)c->run.total / seconds * 1e-6, c->o->convert_output);
    report_not_finite(c);
}

/* What is complete when the signal comes may stay. */
static const char stops[] =
    "\njotun: stops, and removes what is not complete; the same signal again ends it at once\n";

static void run_make(ConvertTask *c, Plan *plan)
{
    const Options *o = c->o;
    static const Dtype types[] = { F32, BF16, F16 };
    bool cast = o->convert_type.value != CHOICE_convert_type_keep &&
                o->convert_type.value != CHOICE_convert_type_q8_0;
    if (cast) plan_cast(plan, types[o->convert_type.value - CHOICE_convert_type_f32]);
    c->run = (ConvertRun){ .from = &c->from, .plan = plan, .output = o->convert_output,
        .progress = progress, .context = c, .stop = signals_catch(stops) };
    c->begun = c->last_report = seam.clock();
}

static bool takes_states(const ConvertTask *c) { return c->from.file.states && !c->o->no_save_optim; }

/* Links and plan of the model, and then `work`. */
static Status planned(ConvertTask *c, Naming naming, PlanDirection direction,
                      Status (*work)(ConvertTask *, void *), void *context)
{
    Links links;
    Plan  plan;
    ModelConfig config = setup_model(&c->model);
    TRY(links_make(&links, naming, &config));
    bool   states = takes_states(c) && direction == TO_OURS;
    PlanRules rules = { &links, naming, direction, config.tied, config.layers, states };
    Status status = plan_make(&plan, &rules, &c->from.file);
    if (status == OK) {
        if (plan.mtp_tensors) log_line("%s: %s", c->o->convert_input, PLAN_MTP_LEFT);
        status = plan_check_tied(&plan, &c->from.file, 0, 1);
        if (status == OK) {
            run_make(c, &plan);
            status = work(c, context);
        }
        if (status == OK) report(c);
        plan_free(&plan);
    }
    links_free(&links);
    return status;
}

/* ---- the tokenizer ---- */

/* It has to fit the model. */
static Status tokenizer_fits(TokenizerFacts *facts, const ConvertTask *c, bool typed)
{
    Status status = setup_tokenizer_facts(facts, c->tokenizer);
    if (status != OK && !typed) return setup_refuse_foreign_tokenizer(status, c->o->convert_input, false);
    TRY(status);
    status = setup_limit_tokenizer(c->tokenizer, c->tokenizer, facts->vocabulary, c->model.vocabulary);
    return status == OK ? OK : fail(status, "%s, or give none", fail_text());
}

/* The one that a person names, else the checkpoint's own. What earlier versions wrote without a tokenizer has
 * the default of --tokenizer, and no fingerprint. facts: zeros of none */
static Status tokenizer_choose(TokenizerFacts *facts, ConvertTask *c)
{
    bool typed = options_typed_by_person(c->o, OPTION_tokenizer);
    const char *own = c->from.tokenizer, *input = c->o->convert_input, *name = typed ? c->o->tokenizer : own;
    if (!*name) name = strcmp(c->model.tokenizer, "bytes") ? c->model.tokenizer : TOKENIZER_NONE;
    *facts = (TokenizerFacts){ 0 };
    c->tokenizer = name;
    bool none = tokenizer_is_none(name);
    if (none && (!*own || tokenizer_is_none(own)))
        log_line("%s has no tokenizer, and none is written; --tokenizer names one", input);
    if (!none) TRY(tokenizer_fits(facts, c, typed));
    if (typed) setup_note_other_tokenizer(name, none ? NULL : facts, own, input);
    return OK;
}

/* ---- to a checkpoint of jotun ---- */

/* The tokenizer becomes one of the options of the model. */
static Status take_tokenizer(ConvertTask *c, TokenizerFacts *facts)
{
    TRY(tokenizer_choose(facts, c));
    bool  word = tokenizer_is_none(c->tokenizer) || strcmp(c->tokenizer, "bytes") == 0;
    char *path = word ? NULL : realpath(c->tokenizer, NULL);
    Status status = options_set(&c->model, OPTION_tokenizer, path ? path : c->tokenizer,
        option_source(SOURCE_CHECKPOINT, "--tokenizer", c->tokenizer, c->o->convert_input));
    free(path);
    return status;
}

/* The options of the model, and of the run that the other program names; what it does not name is not in the
 * checkpoint, so that a run that resumes from it may choose it. */
static Status options_of_run(const char **text, ConvertTask *c)
{
    const CommandSet of_run   = FOR_STATES | FOR_SCHEDULE | FOR_SAME_RUN,
                     of_model = FOR_CHECKPOINT_ARGS | FOR_SHAPE;
    TRY(options_json(&c->model, text));
    json_t *options = json_loads(*text, 0, NULL), *theirs = json_loads(c->from.options, 0, NULL);
    for (int i = 0; i < OPTIONS; i++) {
        json_t *value = json_object_get(theirs, option_rows[i].name);
        if (!option_taken(i, of_run) || option_taken(i, of_model)) continue;
        if (value) json_object_set(options, option_rows[i].name, value);
        else       json_object_del(options, option_rows[i].name);
    }
    char *merged = json_dumps(options, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(options);
    json_decref(theirs);
    if (merged) *text = options_hold(&c->model, merged);
    free(merged);
    return merged ? OK : fail(NO_MEMORY, "no memory for the options as JSON");
}

static Status to_jotun(ConvertTask *c, void *context)
{
    TokenizerFacts  facts  = { 0 };
    ModelConfig     config = setup_model(&c->model);
    CheckpointState state  = foreign_weights_state(&c->from.file);
    (void)context;
    if (*c->from.file.states_unread && !c->o->no_save_optim)
        return fail(BAD_FILE, "%s; --no-save-optim leaves its optimizer states out",
                    c->from.file.states_unread);
    state.seed = (uint64_t)c->model.seed;
    if (!takes_states(c)) state.lacks |= CHECKPOINT_STATES;
    if (!(state.lacks & CHECKPOINT_POSITION))
        log_line("convert: the run stood after step %lld, with %lld samples%s", (long long)state.step,
                 (long long)state.samples, state.lacks & CHECKPOINT_STATES ? "" : " and optimizer states");
    TRY(take_tokenizer(c, &facts));
    TRY(state.lacks & CHECKPOINT_POSITION ? options_json(&c->model, &state.options)
                                          : options_of_run(&state.options, c));
    if (facts.fingerprint[0]) {
        state.tokenizer = (TokenizerRecord){ .name = c->model.tokenizer, .fingerprint = facts.fingerprint };
        TRY(setup_tokenizer_copies(&state.tokenizer, &c->model, c->model.tokenizer));
    }
    return jotun_write(&c->run, &config, &state);
}

static Status import(ConvertTask *c, ForeignFormat format)
{
    TRY(foreign_model_open(&c->from, format, c->o->convert_input));
    setup_tell_unknown(c->o->convert_input, c->from.file.unknown);
    if (*c->from.file.note) log_line("%s: %s", c->o->convert_input, c->from.file.note);
    if (*c->from.ids_left) log_line(FOREIGN_IDS_LEFT, c->o->convert_input, c->from.ids_left);
    TRY(setup_model_options(&c->model, c->from.options, c->o->convert_input));
    return planned(c, c->from.naming, TO_OURS, to_jotun, NULL);
}

/* ---- to a folder of transformers ---- */

static bool names_files(const char *option)
{
    int row = option_find(option, FOR_TRAIN);
    return row >= 0 && option_rows[row].path;
}

static Status to_hf(ConvertTask *c, void *context)
{
    HfTexts texts = {.config      = context,
                     .shard_bytes = (int64_t)(c->o->shard_gigabytes * 1e9),
                     .positions   = c->model.positions,
                     .tokenizer   = c->tokenizer,
                     .version     = JOTUN_VERSION,
                     .names_files = names_files};
    return hf_write(&c->run, &texts);
}

/* Whether reading this config gives the options of the model back: what a family cannot say is then another
 * value, which the message names. */
static Status reads_back(const json_t *config, const char *json, const char *path)
{
    Options  again;
    Family   family;
    json_t  *options = json_object();
    Status   status  = family_read(&family, options, config, path);
    char    *text    = json_dumps(options, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(options);
    if (status != OK) return free(text), status;
    log_mute(true);                       /* another family may hold the model */
    status = setup_model_options(&again, text ? text : "", path);
    if (status == OK) status = options_match_json(&again, json, path);
    log_mute(false);
    options_close(&again);
    free(text);
    return status;
}

/* The first family that can hold the model. */
static Status family_choose(Family *family, json_t **config, const ConvertTask *c, const char *json)
{
    json_t *options = json_loads(json, 0, NULL);
    char    why[1500] = "";
    bool    found = false;
    for (Family f = 0; f < FAMILIES && !found; f++) {
        Status status = family_write(config, f, options);
        if (status == OK && (status = reads_back(*config, json, c->o->convert_input)) != OK)
            json_decref(*config);
        found = status == OK;
        *family = f;
        if (!found) message_item(why, sizeof why, "; ", "%.200s", fail_text());
    }
    json_decref(options);
    if (found) return OK;
    return fail(BAD_OPTION, "%s: no architecture of transformers that is known here can hold this model: "
                "%.380s", c->o->convert_input, why);
}

static GgufType gguf_type(const ConvertTask *c)
{
    switch ((enum ChoiceOf_convert_type)c->o->convert_type.value) {
    case CHOICE_convert_type_f32:  return GGUF_F32;
    case CHOICE_convert_type_bf16: return GGUF_BF16;
    case CHOICE_convert_type_f16:  return GGUF_F16;
    case CHOICE_convert_type_q8_0: return GGUF_Q8_0;
    case CHOICE_convert_type_keep: break;
    }
    Dtype held = c->from.file.tensors ? c->from.file.tensor[0].dtype : F32;
    return held == BF16 ? GGUF_BF16 : held == F16 ? GGUF_F16 : GGUF_F32;
}

static Status to_gguf(ConvertTask *c, void *context) { return gguf_write(&c->run, context); }

static Status export_gguf(ConvertTask *c, const char *json)
{
    ModelConfig config = setup_model(&c->model);
    json_t     *options = json_loads(json, 0, NULL);
    /* directories are one machine's, and are not published */
    const char *input = c->o->convert_input, *leaf = path_leaf(input, strlen(input));
    char        name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(leaf, "/"), leaf);
    GgufTexts texts   = {.options   = options,
                         .config    = &config,
                         .type      = gguf_type(c),
                         .tokenizer = c->tokenizer,
                         .name      = name};
    Status status = setup_gguf(&texts.architecture, &c->model, options, c->o->convert_input);
    if (status == OK)
        status = planned(c, gguf_architecture_naming(texts.architecture), TO_THEIRS, to_gguf, &texts);
    json_decref(options);
    return status;
}

static Status export_hf(ConvertTask *c, const char *json)
{
    Family  family;
    json_t *config;
    TRY(family_choose(&family, &config, c, json));
    Status status = planned(c, family_naming(family), TO_THEIRS, to_hf, config);
    json_decref(config);
    return status;
}

/* That of a checkpoint of jotun is in the step's folder, or was found. */
static Status find_own_tokenizer(ConvertTask *c)
{
    CheckpointFacts facts;
    char path[1024];
    if (options_typed_by_person(c->o, OPTION_tokenizer)) return OK;
    TRY(checkpoint_facts(&facts, c->from.file.path));
    Status status = setup_checkpoint_tokenizer(path, c->from.file.path, &facts.state.tokenizer);
    if (status == OK && *path) snprintf(c->from.tokenizer, sizeof c->from.tokenizer, "%s", path);
    checkpoint_facts_free(&facts);
    return status;
}

static Status export(ConvertTask *c)
{
    const char    *json;
    TokenizerFacts tokenizer;
    TRY(jotun_open(&c->from, c->o->convert_input));
    TRY(find_own_tokenizer(c));
    TRY(setup_model_options(&c->model, c->from.options, c->o->convert_input));
    TRY(setup_model_canonical(&c->model));
    Options *model = &c->model;
    if (model->mtp_layers > 0)                         /* transformers and llama.cpp have only the model */
        log_line("%s: its %lld layers of multi-token prediction are left out; they serve training alone",
                 c->o->convert_input, (long long)model->mtp_layers);
    model->mtp_layers = 0;
    /* A model without learned positions may be trained on longer sequences than it was made for. */
    if (model->position.value != CHOICE_position_learned_absolute && model->positions < model->sequence)
        model->positions = model->sequence;
    TRY(tokenizer_choose(&tokenizer, c));
    TRY(options_json(&c->model, &json));
    return c->o->convert_to.value == CHOICE_convert_to_gguf ? export_gguf(c, json) : export_hf(c, json);
}

/* ---- the command ---- */

/* Formats of one file are known by its first bytes. */
static Status refuse_file(const Options *o)
{
    struct stat facts;
    const char *name = o->convert_input, *dot = strrchr(name, '.');
    if (stat(name, &facts) != 0 || !S_ISREG(facts.st_mode)) return OK;
    if (dot && !strcmp(dot, ".gguf"))
        return fail(BAD_OPTION, "--input %s: GGUF is written and not read; give the folder of transformers "
                    "that the file was made from", name);
    return fail(BAD_OPTION, "--input %s is a file; give the folder that has it: of transformers with "
                "config.json, of Megatron-LM's checkpoint, or a checkpoint of jotun", name);
}

/* What a shell completes ends in a slash; names beside the output are made of the last part of its name. */
static const char *without_slashes(Options *o, const char *path)
{
    char   plain[1024];
    size_t letters = strlen(path);
    while (letters > 1 && path[letters - 1] == '/') letters--;
    if (!path[letters] || letters >= sizeof plain) return path;
    snprintf(plain, sizeof plain, "%.*s", (int)letters, path);
    return options_hold(o, plain);
}

static Status input_there(const char *input)
{
    ForeignFormat format;
    const char   *path;
    if (file_exists(input)) return OK;
    if (foreign_format_of(&format, &path, input))
        return fail(BAD_OPTION, "--input %s: prefixes are for jotun train --load; give --input %s --from %s",
                    input, path, foreign_format_name(format));
    return fail(BAD_OPTION, "--input %s: " FOREIGN_NOT_THERE, input);
}

static Status run(ConvertTask *c, Options *o)
{
    TRY(options_derive(o));
    TRY(options_validate(o));
    o->convert_input  = without_slashes(o, o->convert_input);
    o->convert_output = without_slashes(o, o->convert_output);
    TRY(output_directory("--output", o->convert_output));
    ForeignFormat format = FORMAT_HF;
    TRY(input_there(o->convert_input));
    int  from     = o->convert_from.value;
    bool foreign  = from ? from != CHOICE_convert_from_jotun : foreign_format_find(&format, o->convert_input);
    bool to_jotun_step = o->convert_to.value == CHOICE_convert_to_jotun;
    if (foreign && from) format = (ForeignFormat)(from - CHOICE_convert_from_hf);
    if (!foreign || format == FORMAT_HF) TRY(refuse_file(o));
    if (o->convert_type.value == CHOICE_convert_type_q8_0 && o->convert_to.value != CHOICE_convert_to_gguf)
        return fail(BAD_OPTION, "--output-dtype q8_0 is for --to gguf; give f32, bf16 or f16");
    bool same = foreign && format == FORMAT_HF && o->convert_to.value == CHOICE_convert_to_hf;
    if (foreign && !to_jotun_step && !same)
        return fail(BAD_OPTION, "--to %s is written from checkpoints of jotun: convert with --to jotun "
                    "first", o->convert_to.word);
    char path[1024];
    bool ours = false;
    if (!foreign && to_jotun_step) TRY(checkpoint_find_silent(o->convert_input, path, &ours));
    if (!foreign && to_jotun_step && !ours) return foreign_format_refuse(o->convert_input);
    if (foreign != to_jotun_step)
        return fail(BAD_OPTION, "--to %s: the input has this format already; %s", o->convert_to.word,
                    foreign ? "transformers' save_pretrained writes another type or size of files"
                            : "a checkpoint opens under any layout as it is");
    return foreign ? import(c, format) : export(c);
}

Status cmd_convert(Options *o)
{
    ConvertTask c = { .o = o };
    Status status = run(&c, o);
    foreign_model_close(&c.from);
    options_close(&c.model);
    return status;
}
