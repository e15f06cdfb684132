/* The stages of a speedrun that make a model of tokens: the choice of its recipe by the measured speed,
 * training, evaluation and export. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/integer.h"
#include "base/log.h"
#include "base/seam.h"
#include "chart/metrics_reader.h"
#include "cli/speedrun/speedrun.h"
#include "report/run_record.h"
#include "tensor/kernel_family.h"
#include "text/tokenizer.h"

/* ---- the options of a recipe ---- */

/* The type of the run's numbers: bf16 where products of it are faster than those of fp32. It is chosen once
 * and written down, so that a run that is resumed on another machine keeps it. */
static const char *speedrun_type(const Speedrun *s)
{
    const char *chosen = json_string_value(json_object_get(s->state, "type"));
    return chosen ? chosen : kernel_family_has_pairs(kernel_family_best()) ? "bf16" : "fp32";
}

/* The model is that of Qwen 3 (RMSNorm, QK norm, rotary positions, SwiGLU, no biases), which other programs
 * open. Muon for the matrices of layers, adam for all else; the learning rate decays to 0 along a line. */
static void recipe_words(WordList *w, const Speedrun *s, const RecipeChoice *r)
{
    word_list_split(w,
               "train --num-layers %d --hidden-size %d --ffn-hidden-size %d --num-attention-heads %d "
               "--seq-length %d",
               r->depth, r->hidden, r->ffn, r->heads, r->sequence);
    word_list_split(w, "--normalization RMSNorm --qk-layernorm --position-embedding-type rope --swiglu "
                   "--disable-bias-linear");
    word_list_split(w, "--attention-dropout 0 --hidden-dropout %g", r->dropout);
    word_list_split(w, "--micro-batch-size %d --global-batch-size %d", r->micro, r->batch);
    word_list_split(w, "--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-extra-scale-factor 0.2 "
                   "--adam-beta2 0.95");
    word_list_split(w,
               "--lr %g --lr-decay-style linear --lr-warmup-iters %" PRId64
               " --weight-decay %g --seed %" PRId64,
               r->lr, r->warmup, r->weight_decay, s->o->seed);
    if (strcmp(speedrun_type(s), "bf16") == 0) word_list_add(w, "--bf16");
    word_list_option(w, "--tokenizer", speedrun_tokenizer(s));
    word_list_option(w, "--train-data-path", speedrun_path(s, "train_text_document"));
}

static int rising(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* ---- the choice ---- */

enum { MEASURED_STEPS = 5 };

/* The median of the steps after the first, which touches its memory for the first time. */
static Status step_seconds(double *seconds, const Speedrun *s, RecipeChoice *r)
{
    WordList  words                = {0};
    const char *path                 = speedrun_path(s, "speed.jsonl");
    double      step[MEASURED_STEPS] = {0};
    int         steps                = 0;
    remove(path);
    recipe_words(&words, s, r);
    word_list_split(&words, "--train-iters %d --log-interval 1000000", MEASURED_STEPS);
    word_list_option(&words, "--metrics", path);
    TRY(child_run(s, &words, NULL));
    static const char *const key[] = {"seconds"};
    MetricsReader            reader;
    MetricsLine              line;
    TRY(metrics_reader_open(&reader, path, key, 1));
    while (steps < MEASURED_STEPS && metrics_reader_next(&reader, &line)) step[steps++] = line.value[0];
    metrics_reader_close(&reader);
    remove(path);
    if (steps < MEASURED_STEPS)
        return fail(IO_FAILED, "%s: %d steps were measured instead of %d", path, steps, MEASURED_STEPS);
    qsort(step + 1, MEASURED_STEPS - 1, sizeof *step, rising);                    /* all but the first */
    *seconds = (step[steps / 2] + step[(steps + 1) / 2]) / 2;
    return OK;
}

/* Seconds of a step of a depth, and those that measuring it took. */
typedef struct { double step, took; } Measured;

/* Each depth is measured once: what was measured is written down at once, so that a run that is killed and
 * started again chooses by the same numbers. */
static Status measure_once(Measured *m, const Speedrun *s, RecipeChoice *r)
{
    char    name[16];
    int64_t began = seam.clock();
    json_t *all = json_object_get(s->state, "measured");
    if (!all && json_object_set_new(s->state, "measured", all = json_object()) != 0)
        return fail(NO_MEMORY, "no memory for the state");
    snprintf(name, sizeof name, "%d", r->depth);
    const json_t *before = json_object_get(all, name);
    if (before) {
        log_line("speedrun: depth %d: measured before", r->depth);
        *m = (Measured){json_number_value(json_object_get(before, "step")),
                        json_number_value(json_object_get(before, "took"))};
        return OK;
    }
    TRY(step_seconds(&m->step, s, r));
    m->took = seam_seconds_since(began);
    if (json_object_set_new(all, name, json_pack("{s:f, s:f}", "step", m->step, "took", m->took)) != 0)
        return fail(NO_MEMORY, "no memory for the state");
    return speedrun_save(s);
}

enum { SAVES = 20, EVALUATIONS = 10, EVALUATION_BATCHES = 8, EVALUATION_SHARE = 30 };
/* Of the time that is left for training, what is kept for validation and for steps that take longer than the
 * measured ones. */
static const double SPARE = 1.0 / EVALUATION_SHARE + 0.03;

/* Validations during training, and the batches of each: a batch takes a third of a step's time, and all of
 * them a thirtieth of that of all steps at most. No batches: fewer tokens are held out than one has. */
typedef struct { int64_t times, batches; } Validation;
static Validation validation_of(const Speedrun *s, const RecipeChoice *r)
{
    /* The last sample needs a token more, which it predicts. */
    int64_t heldout = ((int64_t)speedrun_number(s, "tokens", "heldout") - 1) / (r->sequence * r->batch);
    int64_t all     = r->steps * 3 / EVALUATION_SHARE;                     /* batches of all validations */
    int64_t batches = least(least(heldout, EVALUATION_BATCHES), most_of(all / EVALUATIONS, 1));
    if (batches <= 0) return (Validation){0, 0};
    return (Validation){least(most_of(all / batches, 1), EVALUATIONS), batches};
}

/* Of the seconds of --minutes those that are left for steps of training, when validation, saves, the
 * evaluation and the export have theirs. A save writes weights and two moments, at 500 MB/s. */
static double seconds_left(const Speedrun *s, const RecipeAsk *ask, const RecipeChoice *r, double step,
                           double begun)
{
    const double fixed = 3, save = 12 * r->parameters / 500e6;
    double       tokens_a_second = (double)r->batch * r->sequence / step;
    double       evaluation      = 2 * speedrun_number(s, "tokens", "heldout") / (3 * tokens_a_second);
    return (ask->seconds - speedrun_seconds(s) - begun - fixed - evaluation - SAVES * save) * (1 - SPARE);
}

static void recipe_show(const RecipeChoice *r, double step)
{
    char time[24] = "not measured";
    if (step > 0) log_time(time, step);
    log_line("speedrun: depth %d: %.3g parameters, %s a step, %" PRId64
             " steps, %.1f passes: expected loss %.4f",
             r->depth, r->parameters, time, r->steps, r->epochs, r->loss);
}

/* A depth that was tried. used: seconds of --minutes that measuring has taken. False: the budget is too small
 * for it. */
typedef struct { RecipeChoice choice; double step; } Tried;

static bool tried_fits(Tried *t, const Speedrun *s, RecipeAsk ask, double used)
{
    if (ask.seconds > 0) ask.seconds = fmax(seconds_left(s, &ask, &t->choice, t->step, used), 1e-3);
    return recipe_horizon(&t->choice, &ask, t->step);
}

/* Measuring the next depth takes some four times as long as this one's did: too long where that is more than
 * a quarter of what is left for this one. */
static bool next_takes_too_long(const Tried *t, const Speedrun *s, const RecipeAsk *ask, double took,
                                double used)
{
    return ask->seconds > 0 && 4 * took > 0.25 * seconds_left(s, ask, &t->choice, t->step, used);
}

static Status try_depth(Tried *t, bool *fits, const Speedrun *s, const RecipeAsk *ask, int depth,
                        double *used)
{
    Measured m = {0};
    recipe_shape(&t->choice, ask, depth);
    if (ask->seconds > 0) {
        t->choice.warmup = 1;
        t->choice.lr     = 1e-3;
        TRY(measure_once(&m, s, &t->choice));
        *used += m.took;
    }
    t->step = m.step;
    *fits   = tried_fits(t, s, *ask, *used);
    recipe_show(&t->choice, t->step);
    return OK;
}

/* To two significant digits. */
static double rounded_up(double x)
{
    double digit = pow(10, floor(log10(x)) - 1);
    return ceil(x / digit) * digit;
}

/* smallest: the first depth, with the seconds of its steps. used: those that measuring has taken, which it
 * takes again. A tenth is added, since no two measurements are the same. */
static Status too_small(const Speedrun *s, const RecipeAsk *ask, const Tried *smallest, double used)
{
    const RecipeChoice *r = &smallest->choice;
    double flops = 1.01 * RECIPE_STEPS_LEAST * r->flops_per_token * r->batch * r->sequence;
    if (ask->seconds <= 0)
        return fail(BAD_OPTION, "--flops %g: not enough for %d steps of the smallest model; give %g or more",
                    ask->flops, RECIPE_STEPS_LEAST, rounded_up(flops));
    double spare = seconds_left(s, ask, r, smallest->step, used);
    double lacks = RECIPE_STEPS_LEAST * smallest->step - spare;
    return fail(BAD_OPTION, "--minutes %g: not enough for %d steps of the smallest model, of %.3g s each, "
                "besides the other stages; about %g would do",
                ask->seconds / 60, RECIPE_STEPS_LEAST, smallest->step,
                rounded_up(1.1 * (ask->seconds + lacks / (1 - SPARE)) / 60));
}

/* The members of a recipe in the state, for json_pack and for json_unpack: their types and names, and where
 * `of` has each of them. */
#define RECIPE_TYPES "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}"
#define RECIPE_MEMBERS(of) \
    "depth", of(depth), "hidden", of(hidden), "ffn", of(ffn), "heads", of(heads), "sequence", of(sequence), \
    "batch", of(batch), "micro", of(micro), "parameters", of(parameters), "flops_per_token", \
    of(flops_per_token), "lr", of(lr), "dropout", of(dropout), "weight_decay", of(weight_decay), \
    "steps", of(steps), "warmup", of(warmup), "epochs", of(epochs), "expected_loss", of(loss)
#define RECIPE_VALUE(field) r->field
#define RECIPE_PLACE(field) &r->field

static Status recipe_read(RecipeChoice *r, const Speedrun *s)
{
    json_error_t error;
    *r = (RecipeChoice){ 0 };
    json_t *facts = speedrun_facts(s, "recipe");
    if (!json_unpack_ex(facts, &error, 0, RECIPE_TYPES, RECIPE_MEMBERS(RECIPE_PLACE))) return OK;
    return fail(BAD_FILE, "%s: its recipe is not whole (%s); remove the directory to begin from nothing",
                speedrun_path(s, "speedrun.json"), error.text);
}

/* Depths are tried from 1 upwards until the expected loss has risen twice, or the next one takes too long to
 * measure. The time that this took is gone for each of them, so that the best is looked for when all are
 * measured; where none fits then, the best is the one that fitted before. */
Status stage_recipe(Speedrun *s, json_t *facts)
{
    static Tried tried[RECIPE_DEPTH_MOST];
    RecipeChoice best = {.loss = INFINITY}, before = best;
    Tokenizer    t;
    double       used = 0;
    bool         fits;
    int          worse = 0, count = 0;
    TRY(tokenizer_open(&t, speedrun_tokenizer(s)));
    RecipeAsk ask = speedrun_ask(s->o);
    ask.tokens = (int64_t)speedrun_number(s, "tokens", "train");
    ask.ids    = t.vocabulary;
    tokenizer_close(&t);
    if (!json_object_get(s->state, "type") &&
        json_object_set_new(s->state, "type", json_string(speedrun_type(s))) != 0)
        return fail(NO_MEMORY, "no memory for the state");
    int first = ask.depth ? ask.depth : 1, last = ask.depth ? ask.depth : RECIPE_DEPTH_MOST;
    for (int depth = first; depth <= last && worse < 2; depth++) {
        double   used_before = used;
        Tried   *now         = &tried[count];
        TRY(try_depth(now, &fits, s, &ask, depth, &used));
        if (!fits) break;
        count++;
        worse = now->choice.loss < before.loss ? 0 : worse + 1;
        if (now->choice.loss < before.loss) before = now->choice;
        if (next_takes_too_long(now, s, &ask, used - used_before, used)) break;
    }
    for (int i = 0; i < count; i++)
        if (tried_fits(&tried[i], s, ask, used) && tried[i].choice.loss < best.loss) best = tried[i].choice;
    if (!best.depth) best = before;
    if (!best.depth) return too_small(s, &ask, &tried[0], used);
    log_line("speedrun: chosen: depth %d, width %d, %" PRId64
             " steps of %d samples of %d tokens (%.1f passes), learning rate %g; the law of "
             "arXiv 2305.16264 for repeated text, 20 tokens a parameter by arXiv 2203.15556",
             best.depth, best.hidden, best.steps, best.batch, best.sequence, best.epochs, best.lr);
    const RecipeChoice *r = &best;
    json_t *chosen = json_pack(RECIPE_TYPES, RECIPE_MEMBERS(RECIPE_VALUE));
    if (!chosen || json_object_update(facts, chosen) ||
        json_object_set_new(facts, "type", json_string(speedrun_type(s))) != 0)
        return fail(NO_MEMORY, "no memory for the state");
    json_decref(chosen);
    return OK;
}

/* ---- the model ---- */

/* What the run's journal says: all parameters, norms too, and the seconds of the starts before the last. A
 * journal may be missing, as on a full disk; then the recipe's count of the matrices stands. */
static void train_facts(const Speedrun *s, json_t *facts)
{
    RunRecord run;
    double    parameters = speedrun_number(s, "recipe", "parameters"), before = 0;
    if (run_record_read(&run, speedrun_path(s, "checkpoint")) == OK) {
        if (run_fact_number(&run, "parameters") > 0) parameters = run_fact_number(&run, "parameters");
        if (run.starts > 0) before = run.start[run.starts - 1].before;
        run_record_free(&run);
    }
    json_object_set_new(facts, "parameters", json_real(parameters));
    if (before > 0) json_object_set_new(facts, "seconds_before", json_real(before));
}

Status stage_train(Speedrun *s, json_t *facts)
{
    WordList     words = {0};
    RecipeChoice r;
    TRY(recipe_read(&r, s));
    Validation validation = validation_of(s, &r);
    recipe_words(&words, s, &r);
    word_list_split(&words, "--train-iters %" PRId64 " --save-interval %" PRId64 " --keep-last 2", r.steps,
               most_of(r.steps / SAVES, 1));
    word_list_option(&words, "--save", speedrun_path(s, "checkpoint"));
    word_list_option(&words, "--load", speedrun_path(s, "checkpoint"));
    word_list_option(&words, "--metrics", speedrun_path(s, "metrics.jsonl"));
    if (validation.batches > 0) {
        word_list_split(&words, "--eval-interval %" PRId64 " --eval-iters %" PRId64 " --valid-data-path",
                   r.steps / validation.times, validation.batches);
        word_list_add(&words, "%s", speedrun_path(s, "heldout_text_document"));
    }
    TRY(child_run(s, &words, NULL));
    train_facts(s, facts);
    return OK;
}

/* Bits per byte of the documents held out: every token but the first is predicted once, ends of documents
 * too, which count as a byte each; half of a window is context. */
Status stage_evaluate(Speedrun *s, json_t *facts)
{
    WordList   words = {0};
    json_error_t error;
    const char  *path = speedrun_path(s, "evaluation.json");
    RecipeChoice r;
    TRY(recipe_read(&r, s));
    word_list_split(&words, "eval perplexity --window-overlap %d", r.sequence / 2);
    word_list_option(&words, "--load", speedrun_path(s, "checkpoint"));
    word_list_option(&words, "--data-path", speedrun_path(s, "heldout_text_document"));
    TRY(child_run(s, &words, path));
    json_t *result = json_load_file(path, 0, &error);
    double  nats   = json_number_value(json_object_get(result, "loss")) *
                  json_number_value(json_object_get(result, "tokens"));
    json_decref(result);
    if (!(nats > 0)) return fail(IO_FAILED, "%s: has no loss", path);
    double bytes =
        speedrun_number(s, "split", "heldout_bytes") + speedrun_number(s, "split", "heldout_documents");
    json_object_set_new(facts, "bits_per_byte", json_real(nats / log(2) / bytes));
    return OK;
}

Status stage_export(Speedrun *s, json_t *facts)
{
    WordList words = {0};
    (void)facts;
    TRY(folder_remove(speedrun_path(s, "hf"))); /* what a killed run has left */
    word_list_split(&words, "convert --to hf");
    word_list_option(&words, "--input", speedrun_path(s, "checkpoint"));
    word_list_option(&words, "--output", speedrun_path(s, "hf"));
    return child_run(s, &words, NULL);
}

Status stage_report(Speedrun *s, json_t *facts)
{
    WordList words = { 0 };
    (void)facts;
    word_list_add(&words, "report");
    word_list_add(&words, "%s", s->folder);
    return child_run(s, &words, NULL);
}
