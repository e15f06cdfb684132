/* What several keys of DeepSpeed's JSON say together: batch sizes, the scheduler, folders of monitors. */
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "conf/conf.h"
#include "conf/schedule.h"
#include "compat/deepspeed/deepspeed.h"
#include "conf/value.h"

/* ---- batch sizes ---- */

static const char *const MICRO = "train_micro_batch_size_per_gpu";
static const char *const STEPS = "gradient_accumulation_steps";

/* train_batch_size is train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks. The
 * steps are 1 where the JSON has only the batch and nobody gave the micro-batch. That it adds up on the
 * ranks of a run is a rule of options; this is what no number of ranks could mend. */
static void judge_batch(DeepSpeed *d)
{
    const Options *o = d->o;
    bool batch = options_said(o, OPTION_global_batch), micro = options_typed_by_person(o, OPTION_micro_batch);
    if (json_is_integer(deepspeed_at(d, "train_batch_size")) && !deepspeed_at(d, MICRO) &&
        !deepspeed_at(d, STEPS) && batch && !micro && !options_said(o, OPTION_accumulation)) {
        deepspeed_note(d, "gradient_accumulation_steps (1)", "not given: DeepSpeed's default is taken");
        deepspeed_set(d, STEPS, OPTION_accumulation, CONVERT_NONE, "1");
    }
    if (!o->accumulation || !batch || o->global_batch % (o->accumulation * (micro ? o->micro_batch : 1)) == 0)
        return;
    long long steps = o->accumulation, whole = o->global_batch, each = micro ? o->micro_batch : 1;
    deepspeed_refuse(d, STEPS, "is %lld, and a batch of %lld is no multiple of %lld (micro-batch %lld x "
                     "%lld steps): the batch is micro-batch x steps x data-parallel ranks; give %lld, or "
                     "leave one of the three out", steps, whole, each * steps, each, steps,
                     whole / (each * steps) * each * steps + (whole < each * steps ? each * steps : 0));
}

/* ---- the scheduler ---- */

/* Parameters of a type; DeepSpeed's constructors refuse others. */
typedef struct { const char *type, *parameters; bool has_rate; } Scheduler;
#define OF_WARMUP "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type last_batch_iteration"
static const Scheduler SCHEDULERS[] = {
    { "WarmupLR",       OF_WARMUP, true },
    { "WarmupDecayLR",  OF_WARMUP " total_num_steps", true },
    { "WarmupCosineLR", "total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type "
                        "last_batch_iteration", false },
    { "OneCycle",       "cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size "
                        "cycle_second_step_size cycle_first_stair_count cycle_second_stair_count "
                        "decay_step_size cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate "
                        "last_batch_iteration", true },
    { "LRRangeTest",    "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate "
                        "lr_range_test_staircase last_batch_iteration", true },
};

static const Scheduler *scheduler_of(const DeepSpeed *d)
{
    char text[DEEPSPEED_TEXT];
    deepspeed_text(text, sizeof text, deepspeed_at(d, "scheduler.type"));
    for (size_t i = 0; i < COUNT(SCHEDULERS); i++)
        if (!strcasecmp(text, SCHEDULERS[i].type)) return &SCHEDULERS[i];
    return NULL;
}

static const char *parameter(char key[DEEPSPEED_KEY], const char *name)
{
    snprintf(key, DEEPSPEED_KEY, "scheduler.params.%s", name);
    return key;
}

/* A parameter that is a number; what it is in DeepSpeed where it is missing or auto. */
static double number_at(DeepSpeed *d, const char *name, double missing)
{
    char key[DEEPSPEED_KEY];
    const json_t *value = deepspeed_at(d, parameter(key, name));
    if (!value || deepspeed_is_auto(value)) return missing;
    if (json_is_number(value)) return json_number_value(value);
    if (json_is_boolean(value)) return json_is_true(value);
    deepspeed_refuse(d, key, "has a value that is not understood; give a number");
    return missing;
}

bool deepspeed_scheduler_has_rate(const DeepSpeed *d)
{
    const Scheduler *s = scheduler_of(d);
    const json_t *own = deepspeed_at(d, "optimizer.params.lr");
    if (!s || !s->has_rate || deepspeed_is_auto(own)) return false;
    const json_t *peak = deepspeed_at(d, "scheduler.params.warmup_max_lr");
    return strncmp(s->parameters, "warmup", 6) != 0 || json_is_number(peak) ||
           (!peak && !strcmp(s->type, "WarmupDecayLR"));
}

/* An option that follows from parameters, of which the one named is the most telling. */
static void set_number(DeepSpeed *d, const char *name, OptionIndex option, double value)
{
    char key[DEEPSPEED_KEY], text[64];
    options_real_text(text, sizeof text, value);
    if (option_rows[option].kind == KIND_INT) snprintf(text, sizeof text, "%.0f", value);
    deepspeed_set(d, parameter(key, name), option, CONVERT_NONE, text);
}

static void refuse_others(DeepSpeed *d, const Scheduler *s)
{
    const char *name;
    json_t     *value;
    char        key[DEEPSPEED_KEY];
    json_object_foreach(json_object_get(json_object_get(d->whole, "scheduler"), "params"), name, value) {
        if (name_in(s->parameters, name, strcmp)) continue;
        if (dialect_find(DIALECT_DSJSON, parameter(key, name), NULL))
            deepspeed_refuse(d, key, "is no parameter of %s, which has %s", s->type, s->parameters);
    }
}

/* The cycle by itself is a warm-up and a decay, by Megatron-LM's rule. All refusals are named at once. */
static void read_one_cycle(DeepSpeed *d)
{
    int    before = d->m->refused;
    char   key[DEEPSPEED_KEY], type[DEEPSPEED_TEXT];
    double first = number_at(d, "cycle_first_step_size", 2000);
    double both  = first + number_at(d, "cycle_second_step_size", first);
    double low   = number_at(d, "cycle_min_lr", -1), high = number_at(d, "cycle_max_lr", -1);
    double rate  = number_at(d, "decay_lr_rate", 0), steps = number_at(d, "decay_step_size", 0);
    deepspeed_text(type, sizeof type, deepspeed_at(d, "optimizer.type"));
    if (low < 0 || high < 0)
        deepspeed_refuse(d, "scheduler.params", "needs cycle_min_lr and cycle_max_lr; give both");
    if (number_at(d, "cycle_first_stair_count", 0) > 0 || number_at(d, "cycle_second_stair_count", 0) > 0)
        deepspeed_refuse(d, parameter(key, "cycle_first_stair_count"), "is refused: the learning rate "
                         "changes with each step; give 0 for both stair counts");
    if (rate != 0 && steps != 0)
        deepspeed_refuse(d, parameter(key, "decay_lr_rate"), "is refused: after the cycle the "
                         "learning rate stays at cycle_min_lr; give 0");
    if (number_at(d, "cycle_momentum", 1) != 0 && strcasecmp(type, "SGD") != 0)
        deepspeed_refuse(d, parameter(key, "cycle_momentum"), "is refused: it is true where it is not "
                         "given, and --adam-beta1 is constant here; give false");
    if (d->m->refused > before) return;
    set_number(d, "cycle_max_lr", OPTION_lr, high);
    set_number(d, "cycle_min_lr", OPTION_lr_warmup_init, low);
    set_number(d, "cycle_min_lr", OPTION_min_lr, low);
    set_number(d, "cycle_first_step_size", OPTION_lr_warmup_iters, first);
    set_number(d, "cycle_second_step_size", OPTION_lr_decay_iters, both);
}

/* min (1 + rate n / size) after n steps, which is a warm-up as long as the run. */
static void read_range_test(DeepSpeed *d)
{
    char   key[DEEPSPEED_KEY];
    double low  = number_at(d, "lr_range_test_min_lr", 1e-3);
    double rate = number_at(d, "lr_range_test_step_rate", 1);
    double size = number_at(d, "lr_range_test_step_size", 2000), steps = (double)d->o->train_iters;
    int    before = d->m->refused;
    if (number_at(d, "lr_range_test_staircase", 0) != 0)
        deepspeed_refuse(d, parameter(key, "lr_range_test_staircase"), "is refused: the learning rate "
                         "rises with each step; give false");
    if (size <= 0)
        deepspeed_refuse(d, parameter(key, "lr_range_test_step_size"), "is not above 0; give the "
                         "steps in which the learning rate rises by lr_range_test_step_rate times its start");
    if (!options_said(d->o, OPTION_train_iters))
        deepspeed_refuse(d, "scheduler.type", "is LRRangeTest, which lasts as long as the run; give "
                         "--train-iters N");
    if (d->m->refused > before) return;
    set_number(d, "lr_range_test_min_lr", OPTION_lr_warmup_init, low);
    set_number(d, "lr_range_test_step_rate", OPTION_lr, low * (1 + rate * steps / size));
    set_number(d, "lr_range_test_step_size", OPTION_lr_warmup_iters, steps);
}

static void judge_optimizer(DeepSpeed *d)
{
    const json_t *params = deepspeed_at(d, "optimizer.params"), *betas = json_object_get(params, "betas");
    if (json_object_size(params) && !deepspeed_at(d, "optimizer.type"))
        import_remark(d->m, d->o, d->from, "optimizer.params of DeepSpeed's JSON is taken without "
                      "optimizer.type, which DeepSpeed does not; --optimizer names the optimizer");
    if (json_is_array(betas) && json_array_size(betas) != 2)
        deepspeed_refuse(d, "optimizer.params.betas", "needs two numbers; give [0.9, 0.95], for example");
}

static void judge_scheduler(DeepSpeed *d)
{
    const Scheduler *s = scheduler_of(d);
    if (!s && !deepspeed_at(d, "scheduler.type") && deepspeed_at(d, "optimizer.type") &&
        !options_said(d->o, OPTION_lr_decay_style))
        import_remark(d->m, d->o, d->from, "scheduler of DeepSpeed's JSON is not given: the learning rate is "
                      "that of --lr-decay-style, by default linear; DeepSpeed's own is constant");
    if (!s) return;
    refuse_others(d, s);
    bool decays = !strcmp(s->type, "WarmupDecayLR") || !strcmp(s->type, "WarmupCosineLR");
    if (decays && !deepspeed_at(d, "scheduler.params.total_num_steps"))
        deepspeed_refuse(d, "scheduler.params", "needs total_num_steps, without which DeepSpeed stops; give "
                         "the steps of the run");
    double low = number_at(d, "warmup_min_lr", 0), init = number_at(d, "warmup_min_ratio", 0);
    if (!strcmp(s->type, "WarmupDecayLR") && (low > 0 || d->o->min_lr > 0))
        set_number(d, "warmup_min_lr", OPTION_min_lr, low);
    if (!strcmp(s->type, "WarmupCosineLR")) {
        if (init > 0) set_number(d, "warmup_min_ratio", OPTION_lr_warmup_init, init * d->o->lr);
        set_number(d, "cos_min_ratio", OPTION_min_lr, number_at(d, "cos_min_ratio", 1e-4) * d->o->lr);
    }
    if (!strcmp(s->type, "OneCycle")) read_one_cycle(d);
    if (!strcmp(s->type, "LRRangeTest")) read_range_test(d);
}

/* ---- lengths of samples ---- */

/* fixed_linear of DeepSpeed's CurriculumScheduler, which its engine asks with the number of each step from 1
 * on (runtime/data_pipeline/curriculum_scheduler.py), and which needs all of these keys. */
static void read_curriculum(DeepSpeed *d)
{
    static const char *const parts[] = { "curriculum_learning.min_difficulty",
                                         "curriculum_learning.schedule_config.total_curriculum_step",
                                         "curriculum_learning.schedule_config.difficulty_step" };
    static const char *const others[] = { "curriculum_learning.curriculum_type",
                                          "curriculum_learning.schedule_type" };
    const char *end = "curriculum_learning.max_difficulty";
    bool        mine = options_typed_by_person(d->o, OPTION_length_warmup);
    char        text[DEEPSPEED_TEXT];
    int         before = d->m->refused;
    LengthSchedule lengths;
    if (!json_is_true(deepspeed_at(d, "curriculum_learning.enabled"))) return;
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!json_is_integer(deepspeed_at(d, parts[i])))
            deepspeed_refuse(d, parts[i], "is no whole number, without which DeepSpeed stops; give one");
    for (size_t i = 0; i < COUNT(others); i++)
        if (!deepspeed_at(d, others[i]))
            deepspeed_refuse(d, others[i], "is not given, and DeepSpeed stops without it; give it");
    if (json_integer_value(deepspeed_at(d, end)) != d->o->sequence)
        deepspeed_refuse(d, end, "is not --seq-length %lld, with which lengths end; give that",
                         (long long)d->o->sequence);
    if (mine)
        deepspeed_refuse(d, "curriculum_learning.enabled", "is true, and --seq-length-warmup is given; leave "
                         "one out");
    if (d->m->refused > before) return;
    for (size_t i = 0; i < COUNT(parts); i++) {
        deepspeed_text(text, sizeof text, deepspeed_at(d, parts[i]));
        OptionSource source = option_source(SOURCE_CONFIG_FILE, parts[i], text, d->from);
        Status status = options_set(d->o, OPTION_length_warmup, text, source);
        CHECK(status == OK, "%s", fail_text());
    }
    d->m->taken += (int)COUNT(parts);
    if (options_lengths(&lengths, d->o) == OK) return;
    deepspeed_refuse(d, parts[0], "cannot be taken: %s", fail_text());
    d->o->length_warmup.count = 0;
    d->o->source[OPTION_length_warmup] = option_source(SOURCE_NOTHING, "", "", d->from);
}

/* ---- monitors ---- */

/* Files are written to output_path/job_name there, from where the run was started. */
static void set_folder(DeepSpeed *d, const char *group, OptionIndex option, const char *ending)
{
    char key[DEEPSPEED_KEY], path[DEEPSPEED_TEXT], job[DEEPSPEED_TEXT], whole[2 * DEEPSPEED_TEXT + 8];
    snprintf(key, sizeof key, "%s.enabled", group);
    if (!json_is_true(deepspeed_at(d, key))) return;
    snprintf(key, sizeof key, "%s.job_name", group);
    deepspeed_text(job, sizeof job, deepspeed_at(d, key));
    snprintf(key, sizeof key, "%s.output_path", group);
    deepspeed_text(path, sizeof path, deepspeed_at(d, key));
    size_t letters = strlen(path);
    snprintf(whole, sizeof whole, "%s%s%s%s", path, letters && path[letters - 1] != '/' ? "/" : "",
             *job ? job : "DeepSpeedJobName", ending);
    deepspeed_set(d, key, option, CONVERT_NONE, whole);
}

/* ---- what an engine does ---- */

static bool is_on(const DeepSpeed *d, const char *key)
{
    const json_t *value = deepspeed_at(d, key);
    return deepspeed_is_auto(value) ? d->o->bf16 : json_is_true(value);
}

/* DeepSpeed's BF16_Optimizer, which it takes for bf16 without ZeRO, shards optimizer states and fp32 weights
 * over the data-parallel ranks (partition_count of runtime/bf16_optimizer.py). That is ZeRO 1, also where the
 * command line has the 0 of the JSON. 1-bit optimizers shard nothing. */
static void judge_stage(DeepSpeed *d)
{
    Options *o = d->o;
    if (o->optimizer.value == CHOICE_optimizer_onebitlamb) return;
    if (o->zero_stage > 0 || !(is_on(d, "bf16.enabled") || is_on(d, "bfloat16.enabled"))) return;
    import_remark(d->m, o, d->from, "bf16 of DeepSpeed's JSON with ZeRO stage 0 is its BF16_Optimizer, which "
                  "shards optimizer states over the data-parallel ranks: that is --zero-stage 1 here");
    o->source[OPTION_zero_stage].kind = SOURCE_NOTHING;
    deepspeed_set(d, "zero_optimization.stage", OPTION_zero_stage, CONVERT_NONE, "1");
}

void deepspeed_values(DeepSpeed *d)
{
    judge_batch(d);
    judge_stage(d);
    judge_optimizer(d);
    judge_scheduler(d);
    read_curriculum(d);
    set_folder(d, "tensorboard", OPTION_tensorboard_dir, "");
    set_folder(d, "csv_monitor", OPTION_metrics, ".csv");
}
