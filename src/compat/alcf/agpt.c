/* Options from the variables of Argonne's train_aGPT_7B.sh: what the environment gives, what the script
 * chooses by architecture and machine, and what it computes of them. What somebody gave on the command line
 * counts instead of a variable, in the arithmetic too. */
#include "compat/alcf/agpt_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "conf/conf.h"
#include "compat/translate.h"
#include "conf/value.h"

void agpt_refuse(Agpt *a, const char *format, ...)
{
    char    why[IMPORT_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    text_list_add(&a->refused, options_hold(a->o, why));
}

const char *agpt_held(Agpt *a, const char *format, ...)
{
    char    text[AGPT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return options_hold(a->o, text);
}

bool agpt_given(const Agpt *a, int v)
{
    return a->value[v].given || a->value[v].ours;
}

static const char *text_of(const Agpt *a, int v)
{
    return a->value[v].text ? a->value[v].text : "";
}

/* ---- what is given ---- */

/* Whether an option of jotun says what this variable would. */
static bool option_instead(Agpt *a, int v)
{
    AgptValue     *value = &a->value[v];
    const Options *o     = a->o;
    const Dialect *row   = agpt_row(value->name, NULL);
    char           text[AGPT_TEXT];
    if (v == V_DTYPE) {
        bool said = o->source[OPTION_bf16].kind > SOURCE_CHECKPOINT ||
                    o->source[OPTION_fp16].kind > SOURCE_CHECKPOINT;
        if (said) value->text = o->bf16 ? "bf16" : o->fp16 ? "fp16" : "fp32";
        return said;
    }
    bool same = row && (row->verb == VERB_SAME || row->verb == VERB_WITH);
    if (!same || !options_typed_by_person(o, row->option)) return false;
    value->text = options_hold(a->o, options_value_text(text, sizeof text, o, row->option));
    if (value->given)
        log_line("%s counts, and %s does not", options_typed(text, sizeof text, o, row->option), value->name);
    return true;
}

static void read_variable(Agpt *a, int v)
{
    AgptValue  *value = &a->value[v];
    const char *list  = agpt_variables[v].names;
    for (char one[128]; name_next(one, sizeof one, &list);) {
        const char *name = options_hold(a->o, one), *text = getenv(one);
        if (!value->name) value->name = name;
        if (!text || !*text) continue; /* "" is as if it were not set, as there */
        if (value->given) {
            if (strcmp(text, value->text)) log_line("%s=%s is not read: %s counts", name, text, value->name);
            continue;
        }
        *value = (AgptValue){.name = name, .text = options_hold(a->o, text), .given = true};
    }
    if (option_instead(a, v)) value->ours = true, value->given = false;
}

/* ---- what the script chooses ---- */

static void choose(Agpt *a, int v, const char *text)
{
    if (!a->value[v].text) a->value[v].text = text;
}

/* Values of MODEL_ARCH. keeps: what the script takes from the variables beside it; spelled: other values that
 * mean it there, in any case of their letters here. */
static const struct { const char *name, *shape[AGPT_SHAPES], *keeps, *spelled; } architectures[] = {
    { "7B", { AGPT_SHAPE_7B }, "all",
      "AuroraGPT-7B aurora-gpt-7b llama-3.1-7B llama-3.2-7B" },
    { "2B", { "16", "12", "2048", "4", "11008", "8192" }, "",
      "AuroraGPT-2B AuroraGPT_2B Aurora-GPT-2B AuroraGPT2B Aurora_GPT_2B" },
    { "llama3-3B", { "24", "28", "3072", "8", "8192", "8192" }, "NLAYERS", "llama-3B" },
    { "smollm3-3B", { "16", "24", "2048", "4", "11008", "8192" }, "NLAYERS", "smollm3_3B" },
    { "phi4-mini", { "32", "24", "3072", "8", "8192", "8192" }, "NLAYERS", "phi4_mini" },
    { "33B", { "78", "78", "8268", "6", "11076", "4096" }, "", "llama-3.2-33B" },
    { "70B", { "64", "80", "8192", "8", "28672", "8192" }, "", "" },
};
enum { ARCHITECTURES = COUNT(architectures) };

/* What the script sets besides the shape, where that is not its default: by the architecture, then by the
 * machine from this many hosts on, in falling order for a variable. */
static const struct { const char *where; int hosts, variable; const char *value; } choices[] = {
    { "33B", 0, V_TP, "6" },
    { "33B", 0, V_ZERO_STAGE, "2" },
    { "33B", 0, V_MICRO_BATCH, "1" },
    { "33B", 0, V_GRAD_ACC_STEPS, "1" },
    { "aurora sunspot", 256, V_GRAD_ACC_STEPS, "1" },
    { "aurora sunspot", 128, V_GRAD_ACC_STEPS, "2" },
    { "aurora sunspot", 33, V_GRAD_ACC_STEPS, "4" },
    { "aurora sunspot", 16, V_GRAD_ACC_STEPS, "8" },
    { "aurora sunspot", 0, V_GRAD_ACC_STEPS, "16" },
    { "polaris", 8, V_MICRO_BATCH, "4" },
    { "polaris", 3, V_MICRO_BATCH, "2" },
    { "polaris sirius", 0, V_DTYPE, "fp16" },
    { "polaris sirius sophia", 0, V_GRAD_ACC_STEPS, "8" },
    { "perlmutter", 0, V_TP, "2" },
};

static void choose_where(Agpt *a, const char *where)
{
    for (size_t i = 0; i < COUNT(choices); i++)
        if (name_in(choices[i].where, where, strcmp) && a->found.machine.hosts >= choices[i].hosts)
            choose(a, choices[i].variable, choices[i].value);
}

/* Some architectures keep their shape there, whatever the variables say; here what is given counts. */
static void choose_architecture(Agpt *a)
{
    const char *name       = a->value[V_MODEL_ARCH].text;
    char        known[256] = "";
    for (int i = 0; i < ARCHITECTURES; i++) {
        message_item(known, sizeof known, ", ", "%s", architectures[i].name);
        bool spelled = name_in(architectures[i].spelled, name, strcasecmp);
        if (!spelled && strcmp(architectures[i].name, name)) continue;
        a->value[V_MODEL_ARCH].text = architectures[i].name;
        for (int s = 0; s < AGPT_SHAPES; s++) {
            AgptValue  *value = &a->value[agpt_shape[s]];
            const char *its = architectures[i].shape[s], *keeps = architectures[i].keeps;
            bool kept = strcmp(keeps, "all") && !strstr(keeps, value->name);
            if (value->given && kept && strcmp(value->text, its))
                log_line("%s=%s counts; " SCRIPT " would take MODEL_ARCH=%s's %s", value->name, value->text,
                         architectures[i].name, its);
            choose(a, agpt_shape[s], its);
        }
        choose_where(a, architectures[i].name);
        return;
    }
    agpt_refuse(a,
           "MODEL_ARCH=%s is not known; these are: %s; give one of them, or HEADS, NLAYERS, HIDDEN, "
           "NUM_KV_HEAD, FFN_HIDDEN_SIZE and SEQ",
           name, known);
}

static void read_values(Agpt *a)
{
    for (int v = 0; v < VARIABLES; v++) read_variable(a, v);
    choose(a, V_MODEL_ARCH, agpt_variables[V_MODEL_ARCH].fallback);
    choose_architecture(a);
    choose_where(a, a->found.machine.name);
    if (!strcasecmp(text_of(a, V_OPT), "ds.onebitlamb")) choose(a, V_ZERO_STAGE, "0");
    for (int v = 0; v < VARIABLES; v++)
        if (*agpt_variables[v].fallback) choose(a, v, agpt_variables[v].fallback);
}

/* Weights of training, validation and test, which are one text of --split. */
static void check_splits(Agpt *a)
{
    static const int splits[] = {V_TRAIN_SPLIT, V_VAL_SPLIT, V_TEST_SPLIT};
    for (int i = 0; i < 3; i++) {
        const AgptValue *value = &a->value[splits[i]];
        double           weight;
        if (!value_weight(&weight, value->text, strlen(value->text)))
            agpt_refuse(a, "%s=%s is no number from 0 on; give %s", value->name, value->text,
                   agpt_variables[splits[i]].fallback);
    }
}

/* ---- names of folders ---- */

/* `any` replaces what a run that resumes may change: "", or "*" of a pattern. */
static const char *run_name(Agpt *a, const char *any)
{
#define OWN(v) (*any ? any : text_of(a, v))
    char    world[24], type[128] = "", model[512] = "", decay[64] = "";
    int64_t tokens = a->value[V_TRAIN_TOKENS].text ? agpt_number(a, V_TRAIN_TOKENS) : 0;
    snprintf(world, sizeof world, "%" PRId64, a->world);
    if (a->value[V_TOKENIZER_TYPE].given) {
        const char *kind = text_of(a, V_TOKENIZER_TYPE), *suffix = strstr(kind, "Tokenizer");
        snprintf(type, sizeof type, "_tok%.*s", suffix ? (int)(suffix - kind) : 100, kind);
    }
    if (a->value[V_TOKENIZER_MODEL].given)
        snprintf(model, sizeof model, "_tm%s", text_of(a, V_TOKENIZER_MODEL));
    for (char *c = model; *c; c++)
        if (*c == '/') *c = '_';
    if (*text_of(a, V_LR_DECAY_ITERS)) snprintf(decay, sizeof decay, "_ldi%s", text_of(a, V_LR_DECAY_ITERS));
    return agpt_held(a,
                "%s-ws%s-ds-stage%s-nl%s-hs%s-mb%s-seq%s-gb%s-sp%s-pp%s-tp%s-%s-opt%s-lr%s-lwf%s_ntok%" PRId64
                "B%s%s%s%s",
                text_of(a, V_MODEL_ARCH), *any ? any : world, OWN(V_ZERO_STAGE), text_of(a, V_NLAYERS),
                text_of(a, V_HIDDEN), OWN(V_MICRO_BATCH), text_of(a, V_SEQ), OWN(V_GLOBAL_BATCH), OWN(V_SP),
                OWN(V_PP), OWN(V_TP), text_of(a, V_DTYPE), text_of(a, V_OPT), OWN(V_LR),
                text_of(a, V_LR_WARMUP_FRAC), tokens / 1000000000, type, model, decay,
                a->value[V_NO_FLASH_ATTN].given ? "" : "_flash");
#undef OWN
}

static void name_folders(Agpt *a)
{
    enum { LETTERS_MAX = 255 }; /* of a name in a file system */
    AgptValue *folder = &a->value[V_CKPT_DIR];
    AgptFound *found = &a->found;
    a->name = run_name(a, "");
    if (strchr(a->name, '/'))
        return agpt_refuse(a, "the folder of a run cannot be named %s; give values without /", a->name);
    if (strlen(a->name) > LETTERS_MAX)
        return agpt_refuse(
            a,
            "the name of the run's folder would have %zu letters, and %d are possible: %s; give a shorter "
            "path as TOKENIZER_MODEL",
            strlen(a->name), LETTERS_MAX, a->name);
    if (folder->text) return;
    if (a->value[V_SAVE].ours) {
        folder->text = a->o->save;
        return;
    } /* --save on the command line */
    if (!a->known) found->resumes = agpt_checkpoints(found, a->name, run_name(a, "*"));
    if (found->resumes)
        log_line(
            "%s is resumed, a run of another world size, layout or learning rate; CKPT_DIR=DIR begins a "
            "new one, OVERRIDE_CKPT_OPT_PARAM=1 takes the new learning rate",
            found->run);
    else if (*found->finished)
        log_line("a new run begins: %s, of another world size, layout or learning rate, is finished; "
                 "CKPT_DIR=%s with more steps continues it",
                 found->finished, found->finished);
    folder->text = options_hold(a->o, found->run);
}

/* ---- values to options ---- */

static void set(Agpt *a, OptionIndex option, const char *text, const char *name, const char *from)
{
    OptionSource source = option_source(SOURCE_PRESET, name, text, from);
    if (options_set(a->o, option, text, source) != OK) agpt_refuse(a, "%s", fail_text());
}

/* What the script gives without a variable: from says how it comes about. */
static void set_own(Agpt *a, OptionIndex option, const char *text, const char *from)
{
    char name[128];
    snprintf(name, sizeof name, "--%s", option_rows[option].name);
    set(a, option, text, name, from);
}

/* Through its row of dialects.def. A default that changes nothing is not logged. */
static void take(Agpt *a, int v)
{
    const AgptValue *value = &a->value[v];
    const Dialect   *row   = value->text ? agpt_row(value->name, value->text) : NULL;
    if (!row || value->ours || v == V_GRAD_ACC_STEPS || v == V_TRAIN_TOKENS) return;
    if (!value->given && row->verb == VERB_IGNORED) return;
    SourceKind   kind   = value->given ? SOURCE_ENVIRONMENT : SOURCE_PRESET;
    OptionSource source = option_source(kind, value->name, value->text, SCRIPT);
    if (translate_name(a->o, row, value->text, source, NULL) != OK) agpt_refuse(a, "%s", fail_text());
}

/* Without the flags of Llama some variables go nowhere; a wrong value of theirs is refused all the same. */
static bool goes_nowhere(Agpt *a, int v)
{
    bool llama     = v == V_NUM_KV_HEAD || v == V_FFN_HIDDEN_SIZE || v == V_ROPE_THETA;
    bool recompute = v == V_ACT_CKPT_NUM_LAYERS && !a->value[V_USE_ACTIVATION_CHECKPOINTING].given;
    bool idle      = (llama && a->value[V_NO_LLAMA].given) || recompute;
    if (!idle || !a->value[v].given) return idle;
    Options      unused = { .command = FOR_TRAIN };
    const char  *name = a->value[v].name, *text = a->value[v].text;
    OptionSource source = option_source(SOURCE_ENVIRONMENT, name, text, SCRIPT);
    if (translate_name(&unused, agpt_row(name, text), text, source, NULL) != OK)
        agpt_refuse(a, "%s", fail_text());
    else log_line("%s=%s has no effect %s", name, text,
                  recompute ? "without USE_ACTIVATION_CHECKPOINTING=1" : "with NO_LLAMA");
    options_close(&unused);
    return idle;
}

static bool wandb_off(const Agpt *a)
{
    const char *mode = text_of(a, V_WANDB_MODE), *off = text_of(a, V_WANDB_DISABLED);
    return !strcmp(mode, "disabled") || (*off && strcmp(off, "0") && strcmp(off, "false"));
}

static void take_variables(Agpt *a)
{
    for (int v = 0; v < VARIABLES; v++)
        if (!goes_nowhere(a, v) && !(v == V_WB_PROJECT && wandb_off(a))) take(a, v);
}

static void give_fixed(Agpt *a)
{
    for (int i = 0; i < agpt_fixed_count; i++) {
        const AgptFixed *row = &agpt_fixed[i];
        const char      *off = getenv(row->without);
        if (off && *off) continue;
        if (row->option == OPTION_data_order && a->o->mock_data) continue;
        set_own(a, row->option, row->value,
                *row->without ? agpt_held(a, SCRIPT " without %s=1", row->without) : SCRIPT);
    }
}

/* ---- data and tokenizer ---- */

static bool has_data(const Options *o)
{
    return o->data_file_list || o->data_path.count || o->train_data_path.count || o->mock_data;
}

/* As rank 0 has seen it, where that is known. */
static bool is_file(const Agpt *a, bool *there, const char *path)
{
    if (!a->known) *there = file_exists(path);
    return *there;
}

static void choose_data(Agpt *a)
{
    const Options *o       = a->o;
    const char    *machine = *a->found.machine.name ? a->found.machine.name : "MACHINE";
    const char    *dolma   = agpt_held(a, "ALCF/data-lists/%s/dolma.txt", machine);
    a->lacks_data = !has_data(o) && !is_file(a, &a->found.data_list, dolma);
    if (a->lacks_data)
        agpt_refuse(a,
               "DATA_FILE_LIST is not given, and the script's own list %s is not here; give a file whose "
               "lines are: weight, prefix of a token file, corpus",
               dolma);
    else if (!has_data(o)) set(a, OPTION_data_file_list, dolma, "DATA_FILE_LIST", SCRIPT);
    if (!o->data_file_list) return;
    const char *slash = strrchr(o->data_file_list, '/'), *stem = slash ? slash + 1 : o->data_file_list;
    const char *dot = strstr(stem, ".txt");
    set_own(a, OPTION_corpus_shuffled, "true", SCRIPT);
    set_own(a, OPTION_data_cache_path,
            agpt_held(a, "%s/.cache/%.*s/index-cache", text_of(a, V_CKPT_DIR),
                      dot ? (int)(dot - stem) : 200, stem),
            "CKPT_DIR");
}

/* GPT-2's tokenizer and BookCorpus, from DATA_PARENT. */
static void take_gpt2(Agpt *a)
{
    const char *parent = text_of(a, V_DATA_PARENT);
    set(a, OPTION_tokenizer, parent, "DATA_PARENT", SCRIPT);
    if (!has_data(a->o))
        set(a, OPTION_data_path, agpt_held(a, "%s/BookCorpusDataset_text_document", parent), "DATA_PARENT",
            SCRIPT);
}

/* A tokenizer that is not here says how many ids there are, which is all that training on tokens needs. */
static void take_tokenizer(Agpt *a)
{
    static const struct { const char *name, *ids; } known[] = {             /* those that it downloads */
        { "google/gemma-7B", "256000" },
        { "google/gemma-7b", "256000" },
        { "meta-llama/Llama-2-7b", "32000" },
        { "meta-llama/Llama-2-7b-hf", "32000" },
        { "meta-llama/Meta-Llama-3-8B", "128256" },
    };
    const AgptValue *model = &a->value[V_TOKENIZER_MODEL], *type = &a->value[V_TOKENIZER_TYPE];
    const char      *name  = model->text ? model->text : "google/gemma-7B";
    bool             llama = type->text && !strcmp(type->text, "Llama2Tokenizer");
    if (options_typed_by_person(a->o, OPTION_tokenizer)) return;
    if (type->text && !strncasecmp(type->text, "gpt", 3)) return take_gpt2(a);
    if (!model->text && llama)
        name = is_file(a, &a->found.llama, "ALCF/tokenizer.model") ? "ALCF/tokenizer.model"
                                                                   : "meta-llama/Llama-2-7b";
    if (is_file(a, &a->found.tokenizer, name)) return set(a, OPTION_tokenizer, name, model->name, SCRIPT);
    for (size_t i = 0; i < COUNT(known); i++) {
        if (strcmp(known[i].name, name)) continue;
        set(a, OPTION_tokenizer, "none", model->name, SCRIPT);
        set(a, OPTION_vocabulary, known[i].ids, model->name, name);
        a->note = agpt_held(
            a,
            "TOKENIZER_MODEL %s is not here: tokens are its %s ids without text, as --tokenizer none; give "
            "its folder or file for evaluations by byte and for samples",
            name, known[i].ids);
        return;
    }
    agpt_refuse(a,
           "TOKENIZER_MODEL=%s is no file or folder, and nothing is downloaded; give the folder of its "
           "tokenizer.json or its sentencepiece .model, or --tokenizer bytes, without one",
           name);
}

const AgptDefault agpt_optimizer_defaults[] = {
    { "adam adopt", OPTION_coupled_decay, "true" },   /* torch.optim.Adam and ADOPT's authors decay by L2 */
    { "ds.onebitlamb", OPTION_onebit_freeze, "1000" },
    { "ds.onebitlamb", OPTION_lamb_max_coeff, "0.3" },
    { "sophiag", OPTION_sophia_rho, "0.01" },
    { "dshampooadamw", OPTION_precondition_frequency, "100" },
    { "muon", OPTION_muon_momentum, "0.95" },
    { "muon", OPTION_muon_nesterov, "true" },
    { "muon", OPTION_muon_num_ns_steps, "6" },
    { "muon", OPTION_muon_coefficient_type, "simple" },
    { "muon", OPTION_muon_extra_scale_factor, "0.2" },
};
const int agpt_optimizer_defaults_count = COUNT(agpt_optimizer_defaults);

/* What the script's programs take beside a value, where no option of jotun gives that value. */
static void give_beside(Agpt *a)
{
    const AgptValue *type = &a->value[V_DTYPE], *optimizer = &a->value[V_OPT];
    if (!type->ours && type->text && !strcasecmp(type->text, "fp16"))
        set(a, OPTION_initial_loss_scale, "65536", type->name, SCRIPT);
    for (int i = 0; !optimizer->ours && i < agpt_optimizer_defaults_count; i++) {
        const AgptDefault *row = &agpt_optimizer_defaults[i];
        if (name_in(row->optimizers, optimizer->text, strcasecmp))
            set(a, row->option, row->value, optimizer->name, SCRIPT);
    }
}

static void give_computed(Agpt *a)
{
    Options *o = a->o;
    give_beside(a);
    if (!options_typed_by_person(o, OPTION_ranks))
        set(a, OPTION_ranks, agpt_held(a, "%" PRId64, a->world), "WORLD_SIZE",
            "hosts, NGPU_PER_HOST, TP, PP and SP");
    if (!a->value[V_GLOBAL_BATCH].given) take(a, V_GLOBAL_BATCH);
    if (!a->value[V_TRAIN_ITERS].given) take(a, V_TRAIN_ITERS);
    if (a->samples)
        set_own(a, OPTION_train_samples, agpt_held(a, "%" PRId64, a->samples),
                "TRAIN_TOKENS, SEQ and GLOBAL_BATCH");
    set_own(a, OPTION_positions, agpt_held(a, "%" PRId64, 16 * agpt_number(a, V_SEQ)), "16 x SEQ");
    set_own(a, OPTION_init_std, agpt_initial_deviation(a), "HIDDEN");
    set_own(a, OPTION_split,
            agpt_held(a, "%s,%s,%s", text_of(a, V_TRAIN_SPLIT), text_of(a, V_VAL_SPLIT),
                      text_of(a, V_TEST_SPLIT)),
            "TRAIN_SPLIT, VAL_SPLIT and TEST_SPLIT");
    set(a, OPTION_save, text_of(a, V_CKPT_DIR), "CKPT_DIR", SCRIPT);
    set(a, OPTION_load, text_of(a, V_CKPT_DIR), "CKPT_DIR", SCRIPT);
    if (a->value[V_OVERRIDE_CKPT_OPT_PARAM].given)
        set(a, OPTION_override_schedule, "true", "OVERRIDE_CKPT_OPT_PARAM", SCRIPT);
    if (!a->value[V_EZPZ_NO_DISTRIBUTED_HISTORY].given)
        set_own(a, OPTION_history, agpt_held(a, "%s/history", text_of(a, V_CKPT_DIR)), "CKPT_DIR");
    if (!a->value[V_NO_TENSORBOARD].given) {
        set_own(a, OPTION_tensorboard_dir, agpt_held(a, "%s/tensorboard", text_of(a, V_CKPT_DIR)),
                "CKPT_DIR");
        set_own(a, OPTION_log_timers, "true", SCRIPT);
    }
    if (o->wandb_project) set_own(a, OPTION_wandb_names, "forks", SCRIPT);
}

/* All that is refused is named: each but the first, from which others may follow, in a line of the log. */
static Status conclude(Agpt *a)
{
    Status status = OK;
    for (int i = 1; i < a->refused.count; i++) log_line("%s", a->refused.text[i]);
    Status kind = a->lacks_data && a->refused.count == 1 ? BAD_USAGE : BAD_OPTION;
    if (a->refused.count) status = fail(kind, "%s", a->refused.text[0]);
    else if (a->note) log_line("%s", a->note);
    free(a->refused.text);
    return status;
}

Status agpt_words(OptionWords *words, AgptRun *run, const Options *so_far)
{
    Options o;
    Agpt    a = { .o = &o, .known = run->known, .found = run->found, .name = "" };
    if (!run->known) TRY(agpt_machine(&a.found.machine));
    options_copy(&o, so_far);
    read_values(&a);
    take_variables(&a);
    give_fixed(&a);
    take_tokenizer(&a);
    if (!a.refused.count) agpt_compute(&a), check_splits(&a);
    if (!a.refused.count) name_folders(&a);
    choose_data(&a);
    if (!a.refused.count) give_computed(&a);
    run->found = a.found;
    snprintf(run->name, sizeof run->name, "%s", a.name);
    Status status = conclude(&a);
    if (status == OK) words_between(words, &o, so_far);
    options_close(&o);
    return status;
}
