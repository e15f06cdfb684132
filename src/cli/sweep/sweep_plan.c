/* The runs of a sweep: every combination of the values, with the options that follow from a depth, as words
 * of `jotun train`, which are read here as that command would read them, so that what it would refuse is
 * refused before the first run begins. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "base/team.h"
#include "cli/setup/setup.h"
#include "cli/sweep/sweep.h"
#include "conf/schedule.h"
#include "data/split.h"
#include "plan/free_memory.h"
#include "plan/memory.h"
#include "plan/size_rule.h"

/* What jotun train makes of some words. length, evaluates: they say the length of the run, and when it
 * evaluates. */
typedef struct { Options o; TrainConfig config; bool length, evaluates; } Trained;

/* A length and evaluations are set where the words have none yet. The caller closes made->o. */
static Status train_options(Trained *made, const WordList *words, const Sweep *sweep)
{
    Options *o = &made->o;
    TRY(setup_parse(o, FOR_TRAIN, words->count, words->word));
    made->length    = options_said(o, OPTION_train_iters) || options_said(o, OPTION_train_samples) ||
                      options_said(o, OPTION_train_tokens);
    made->evaluates = options_said(o, OPTION_eval_interval);
    bool validates  = sweep->own->sweep_loss.value == CHOICE_sweep_loss_validation;
    if (validates) options_fill(o, OPTION_eval_interval, 1, "jotun sweep");
    if (!made->length && sweep->own->sweep_depths) options_fill(o, OPTION_train_iters, 1, "jotun sweep");
    TRY(options_needed(o));
    TRY(setup_values(o));
    TRY(setup_validate(o));
    return setup_train_config(&made->config, o);
}

/* ---- what a sweep sets, or cannot have ---- */

typedef struct { OptionIndex option; const char *why; } Refused;
static const Refused refused[] = {
    { OPTION_load,            "a run of a sweep resumes from its own folder" },
    { OPTION_metrics,         "each run has metrics.jsonl in its own folder" },
    { OPTION_history,         "all runs would write to one directory" },
    { OPTION_tensorboard_dir, "all runs would write to one directory" },
    { OPTION_profile,         "all runs would write to one file" },
    { OPTION_skip_train,      "a sweep compares runs that train" },
    { OPTION_draw_schedule,   "a sweep draws nothing; jotun train does" },
    { OPTION_schedule_svg,    "a sweep draws nothing; jotun train does" },
    { OPTION_exit_interval,   "a run that ends before its last step has no result" },
    { OPTION_exit_duration,   "a run that ends before its last step has no result" },
    { OPTION_patience,        "a run that ends before its last step has no result" },
};
static const Refused of_depth[] = {
    { OPTION_model,  "--depth gives the model its size" },
    { OPTION_layers, "--depth is the number of layers" },
    { OPTION_hidden, "the width follows from --depth and --aspect-ratio" },
    { OPTION_ffn,    "the width follows from --depth and --aspect-ratio" },
};

static Status refuse(const Options *o, const Refused *row, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (options_typed_by_person(o, row[i].option))
            return fail(BAD_OPTION, "%s is no option of a sweep: %s; leave it out",
                        o->source[row[i].option].name, row[i].why);
    return OK;
}

/* ---- what follows from a depth ---- */

/* Adds --name value, unless a person gave the option. */
static void add(WordList *words, const Options *o, OptionIndex option, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(WordList *words, const Options *o, OptionIndex option, const char *format, ...)
{
    char value[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (!options_said(o, option)) word_list_add(words, "--%s=%s", option_rows[option].name, value);
}

static bool batch_said(const Options *o)
{
    return options_said(o, OPTION_global_batch) || options_said(o, OPTION_accumulation) ||
        options_said(o, OPTION_step_batch) || options_said(o, OPTION_rampup_batch);
}

static void add_batch(WordList *words, const Options *o, double tokens)
{
    int64_t ranks = options_data_parallel(o),
            micro = options_said(o, OPTION_micro_batch) ? o->micro_batch : 1;
    int64_t samples = size_rule_samples(tokens, o->sequence), each = micro * ranks;
    samples = batch_said(o) ? o->global_batch : samples > each ? samples / each * each : each;
    if (!batch_said(o)) add(words, o, OPTION_global_batch, "%lld", (long long)samples);
    micro = size_rule_micro(samples, ranks, o->sequence);
    if (!options_said(o, OPTION_accumulation)) add(words, o, OPTION_micro_batch, "%lld", (long long)micro);
}

/* AdamW as in the papers whose rules are used: decay of the learning rate by a cosine to a tenth, no dropout
 * in a single pass over the data. */
static void add_course(WordList *words, const Options *o, double rule_lr)
{
    double lr = options_said(o, OPTION_lr) ? o->lr : rule_lr;
    add(words, o, OPTION_lr, "%.3g", lr);
    add(words, o, OPTION_lr_decay_style, "cosine");
    bool constant =
        options_said(o, OPTION_lr_decay_style) && o->lr_decay_style.value == CHOICE_lr_decay_style_constant;
    if (!constant) add(words, o, OPTION_min_lr, "%.3g", lr / 10);
    bool warm = options_said(o, OPTION_lr_warmup_iters) || options_said(o, OPTION_lr_warmup_samples);
    if (!warm) add(words, o, OPTION_lr_warmup_fraction, "0.05");
    add(words, o, OPTION_adam_beta2, "0.95");
    add(words, o, OPTION_weight_decay, "0.1");
    add(words, o, OPTION_attention_dropout, "0");
    add(words, o, OPTION_hidden_dropout, "0");
}

/* The shape of a model of this depth. */
static Status add_shape(SweepRun *run, ModelShape shape)
{
    Options o;
    Status status = setup_parse(&o, FOR_TRAIN, run->words.count, run->words.word);
    if (status == OK) status = refuse(&o, of_depth, COUNT(of_depth));
    if (status == OK) {
        word_list_add(&run->words, "--num-layers=%lld", (long long)shape.layers);
        word_list_add(&run->words, "--hidden-size=%lld", (long long)shape.width);
        add(&run->words, &o, OPTION_heads, "%lld", (long long)shape.heads);
    }
    options_close(&o);
    return status;
}

/* The rest follows from the parameters, which follow from the shape. */
static Status add_depth(SweepRun *run, const Sweep *sweep)
{
    Trained made;
    ModelShape shape = size_rule_shape(run->depth, sweep->own->sweep_aspect);
    TRY(add_shape(run, shape));
    Status status = train_options(&made, &run->words, sweep);
    if (status == OK) {
        const Options *o = &made.o;
        double tokens = sweep->own->sweep_ratio * (double)model_parameters(&made.config.model);
        if (made.length) tokens = (double)(options_schedule_samples(o).whole * o->sequence);
        double inner = 12 * (double)shape.layers * (double)shape.width * (double)shape.width;
        add_batch(&run->words, o, size_rule_batch(shape, o->sequence, tokens));
        add_course(&run->words, o, size_rule_lr(inner));
        if (!made.length) word_list_add(&run->words, "--train-tokens=%.0f", tokens);
    }
    options_close(&made.o);
    return status;
}

/* ---- one run ---- */

/* A name is also that of a folder, of which no two runs may have the same. */
static Status name_run(SweepRun *run, const Sweep *sweep)
{
    bool whole = true;
    run->name[0] = 0;
    for (int i = 0; i < sweep->axes && whole; i++) {
        char depth[32];
        const SweepAxis *axis = &sweep->axis[i];
        snprintf(depth, sizeof depth, "%lld", (long long)run->depth);
        const char *value = i == sweep->depth_axis ? depth : axis->value[run->at[i]];
        whole = message_add(run->name, sizeof run->name, "%s%s=%s", i ? "," : "", axis->name, value);
    }
    if (whole) return OK;
    return fail(BAD_OPTION, "a run named %s... after its values: the name is longer than %zu bytes; give "
                "fewer lists, or shorter values", run->name, sizeof run->name - 1);
}

/* Where it saves and logs: nothing that its losses follow from. */
static void add_machine(SweepRun *run, const Options *o, const TrainConfig *config)
{
    WordList *words = &run->machine;
    int64_t tenth = config->steps / 10 > 0 ? config->steps / 10 : 1;
    word_list_add(words, "--save=%s", run->folder);
    word_list_add(words, "--load=%s", run->folder);
    word_list_add(words, "--metrics=%s/metrics.jsonl", run->folder);
    add(words, o, OPTION_save_interval, "%lld", (long long)tenth);
    add(words, o, OPTION_keep_last, "1");
    run->ranks   = o->ranks;
    run->threads = options_said(o, OPTION_threads);
}

/* The memory of the host, where that is what it takes and other runs are beside it. */
static Status count_bytes(SweepRun *run, const Sweep *sweep, const Trained *made)
{
    if (sweep->at_once < 2 || sweep->own->sweep_at_once || !strcmp(made->config.device, "cuda")) return OK;
    log_mute(true);
    Status status = memory_bytes(&run->bytes, &made->config, (int)made->o.ranks);
    log_mute(false);
    return status;
}

/* Whether there is validation data: of its own, or a share of the split. */
static Status validation_data(const TrainConfig *config)
{
    int64_t begin = 0, end = 0;
    if (config->datasets.valid_sets > 0 || config->datasets.split_path[SPLIT_VALID].count > 0) return OK;
    bool shared = datasets_has(&config->datasets, SPLIT_VALID);
    if (shared) TRY(split_range(&begin, &end, config->split, SPLIT_VALID, SPLIT_SUMS, 1000000));
    if (end > begin && config->split) return OK;
    return fail(BAD_OPTION, "no validation data, whose loss a sweep compares: give --split 95,5,0 or "
                "--valid-data-path, or --compare-loss training");
}

/* A validation loss after the last step, over all validation samples. */
static Status add_evaluation(SweepRun *run, const Sweep *sweep, const Trained *made)
{
    const TrainConfig *config = &made->config;
    const OptionSource *interval = &made->o.source[OPTION_eval_interval];
    if (sweep->own->sweep_loss.value != CHOICE_sweep_loss_validation) return OK;
    TRY(validation_data(config));
    if (!made->evaluates) {
        word_list_add(&run->words, "--eval-interval=%lld", (long long)config->steps);
        if (!options_said(&made->o, OPTION_eval_iters))
            add(&run->words, &made->o, OPTION_full_validation, "true");
    }
    if (!made->evaluates || (config->eval_interval > 0 && config->steps % config->eval_interval == 0))
        return OK;
    return fail(BAD_OPTION, "%s %s: a sweep compares the validation loss after the last step, %lld; leave it "
                "out, or give a divisor of that", interval->name, interval->value, (long long)config->steps);
}

/* Opens the token files, and counts their samples where that reads no index of them: a run would fail on what
 * is missing or too short. */
static Status data_check(const TrainConfig *config)
{
    Datasets     datasets;
    DatasetsPlan plan  = train_config_datasets(config);
    LoaderConfig shape = { .sequence = config->model.sequence, .micro = config->micro,
        .global = config->global, .dp = 1, .cp = 1, .seed = config->seed, .eod = config->eod };
    Status status = datasets_open(&datasets, &plan);
    for (int set = 0; status == OK && plan.rules.order == ORDER_JOTUN && set < DATA_SETS; set++)
        if (train_config_takes(config, set)) status = datasets_measure(&datasets, set, &shape);
    datasets_close(&datasets);
    return status;
}

static Status measure(SweepRun *run, const Sweep *sweep)
{
    Trained made;
    Status status = train_options(&made, &run->words, sweep);
    if (status == OK) status = refuse(&made.o, refused, COUNT(refused));
    if (status == OK) {
        run->parameters = model_parameters(&made.config.model);
        run->steps  = made.config.steps;
        run->tokens = options_schedule_samples(&made.o).whole * made.o.sequence;
        run->flops  = model_flops(&made.config.model, true) * (double)run->tokens;
        status = add_evaluation(run, sweep, &made);
    }
    /* A dry run may be on a machine that has no data. */
    if (status == OK && !sweep->own->sweep_dry) status = data_check(&made.config);
    if (status == OK) status = count_bytes(run, sweep, &made);
    if (status == OK) add_machine(run, &made.o, &made.config);
    options_close(&made.o);
    return status;
}

Status sweep_run_plan(SweepRun *run, const Sweep *sweep)
{
    run->words = run->machine = (WordList){ 0 };
    run->validation = run->training = run->loss = NAN;
    for (int i = 0; i < sweep->word.count; i++) {
        const SweepAxis *axis = NULL;
        for (int a = 0; a < sweep->axes; a++)
            if (sweep->axis[a].place == i) axis = &sweep->axis[a];
        if (axis) word_list_add(&run->words, "--%s=%s", axis->name, axis->value[run->at[axis - sweep->axis]]);
        else      word_list_add(&run->words, "%s", sweep->word.word[i]);
    }
    TRY(name_run(run, sweep));
    TRY(path_join(run->folder, sweep->own->sweep_dir, run->name));
    if (run->depth) TRY(add_depth(run, sweep));
    return measure(run, sweep);
}

void sweep_run_free(SweepRun *run)
{
    word_list_free(&run->words);
    word_list_free(&run->machine);
}

/* ---- all runs ---- */

/* Every combination of values, the last axis first; and the check's depth with every seed. */
static Status list_runs(Sweep *sweep)
{
    int64_t count = 1, seeds = sweep->seed_axis < 0 ? 1 : sweep->axis[sweep->seed_axis].count;
    int64_t checks = sweep->own->sweep_check ? seeds : 0;
    for (int a = 0; a < sweep->axes && count <= SWEEP_RUNS_MAX; a++) count *= sweep->axis[a].count;
    if (count + checks > SWEEP_RUNS_MAX)
        return fail(BAD_OPTION, "the lists have more than %d combinations; give fewer values, or several "
                    "sweeps", SWEEP_RUNS_MAX);
    sweep->runs = (int)(count + checks);
    sweep->run  = calloc((size_t)sweep->runs, sizeof *sweep->run);
    CHECK(sweep->run, "no memory for %d runs", sweep->runs);
    for (int64_t i = 0; i < count; i++) {
        SweepRun *run = &sweep->run[i];
        for (int64_t a = sweep->axes - 1, rest = i; a >= 0; rest /= sweep->axis[a--].count)
            run->at[a] = (int)(rest % sweep->axis[a].count);
        if (sweep->depth_axis >= 0)
            run->depth = (int64_t)sweep->axis[sweep->depth_axis].number[run->at[sweep->depth_axis]];
    }
    for (int64_t s = 0; s < checks; s++) {
        SweepRun *run = &sweep->run[count + s];
        run->check = true;
        run->depth = sweep->own->sweep_check;
        run->at[sweep->depth_axis] = -1;
        if (sweep->seed_axis >= 0) run->at[sweep->seed_axis] = (int)s;
    }
    return OK;
}

/* How many runs the cores of this process have room for. */
static Status fit_cores(Sweep *sweep)
{
    Options o;
    if (sweep->own->sweep_at_once) sweep->at_once = (int)sweep->own->sweep_at_once;
    if (sweep->own->sweep_at_once) return OK;
    Status status = setup_parse(&o, FOR_TRAIN, sweep->word.count, sweep->word.word);
    int64_t each =
        (o.ranks > 0 ? o.ranks : 1) * (options_said(&o, OPTION_threads) && o.threads > 0 ? o.threads : 1);
    sweep->at_once = team_cores() / each > 0 ? (int)(team_cores() / each) : 1;
    options_close(&o);
    return status;
}

/* Fewer where the memory has no room for so many of the largest run. One is begun in any case. */
static void fit_memory(Sweep *sweep)
{
    char   each[24], all[24];
    double most = 0, left = free_memory("");
    const SweepRun *largest = NULL;
    for (int i = 0; i < sweep->runs; i++)
        if (sweep->run[i].bytes > most) largest = &sweep->run[i], most = largest->bytes;
    if (!largest || most * sweep->at_once <= left) return;
    int fit = (int)(left / most);
    log_line("runs at once: %d, not %d, since %s takes %s of memory and %s are free; --runs-at-once N takes "
             "another number", fit > 1 ? fit : 1, sweep->at_once, largest->name, log_bytes(each, most),
             log_bytes(all, left));
    sweep->at_once = fit > 1 ? fit : 1;
}

Status sweep_plan(Sweep *sweep)
{
    TRY(fit_cores(sweep));
    TRY(list_runs(sweep));
    if (sweep->at_once > sweep->runs) sweep->at_once = sweep->runs;
    for (int i = 0; i < sweep->runs; i++) {
        log_mute(i > 0);                                   /* what one says of its options all would */
        Status status = sweep_run_plan(&sweep->run[i], sweep);
        log_mute(false);
        TRY(status);
    }
    fit_memory(sweep);
    for (int i = 0; i < sweep->runs; i++) {
        SweepRun *run = &sweep->run[i];
        int64_t cores = team_cores() / sweep->at_once / run->ranks;
        if (!run->threads) word_list_add(&run->machine, "--threads=%lld", (long long)(cores > 0 ? cores : 1));
    }
    return OK;
}
