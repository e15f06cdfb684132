/* jotun speedrun TEXTS --minutes N: from texts to a trained, evaluated and exported model. The
 * work is done by the other commands, as child processes, and what the run consists of by plan/recipe.c; this
 * file goes through the stages. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "base/shell/shell_word.h"
#include "cli/command.h"
#include "cli/signals.h"
#include "cli/speedrun/speedrun.h"

/* product: what a stage leaves for the user; a stage whose product is gone is run again */
static const struct {
    const char *name, *what;
    StageRun   *run;
    const char *product;
} stages[] = {
    { "clean",     "cleaning the texts",                                 stage_clean, NULL },
    { "split",     "holding out documents",                              stage_split, NULL },
    { "tokenizer", "learning a tokenizer",                               stage_tokenizer, NULL },
    { "tokens",    "tokenizing",                                         stage_tokens, NULL },
    { "recipe",    "choosing the model",                                 stage_recipe, NULL },
    { "train",     "training",                                           stage_train, "checkpoint/latest" },
    { "evaluate",  "evaluating on the documents held out",               stage_evaluate, "evaluation.json" },
    { "export",    "writing the model for Hugging Face's transformers",  stage_export, "hf/config.json" },
    { "report",    "writing a report of the run",                        stage_report, "report.html" },
};
enum { STAGES = COUNT(stages) };

static Status size_check(const Options *o)
{
    const OptionIndex size[] = { OPTION_speedrun_minutes, OPTION_speedrun_depth, OPTION_speedrun_flops };
    const char       *first  = NULL;
    if (!o->speedrun_input.count)
        return fail(BAD_USAGE, "jotun speedrun needs the texts to train on, files or directories, as in: "
                    "jotun speedrun texts --minutes 10");
    for (int i = 0; i < 3; i++) {
        if (!options_typed_by_person(o, size[i])) continue;
        if (first)
            return fail(BAD_OPTION, "%s and %s both say how large the run is; leave one out", first,
                        o->source[size[i]].name);
        first = o->source[size[i]].name;
    }
    for (int i = 0; i < o->speedrun_input.count; i++)
        if (!strcmp(o->speedrun_input.text[i], "-"))
            return fail(BAD_OPTION, "--input -: a resumed run reads its texts again, which standard input "
                        "cannot; write them to a file");
    return OK;
}

/* The words of the command line are inputs as well, after those of --input. */
static Status take_words(Options *o)
{
    OptionSource typed = option_source(SOURCE_COMMAND_LINE, "--input", "", "");
    for (int i = 0; i < o->words.count; i++)
        TRY(options_set(o, OPTION_speedrun_input, o->words.text[i], typed));
    return OK;
}

/* The path without slashes behind it; of ".", "..", "texts/.." and the like the directory's own one, since
 * nothing that is named after these lies beside the texts. */
static const char *input_path(char real[PATH_MAX], const char *input, size_t *bytes)
{
    for (*bytes = strlen(input); *bytes > 1 && input[*bytes - 1] == '/';) --*bytes;
    const char *leaf    = path_leaf(input, *bytes);
    size_t      letters = (size_t)(input + *bytes - leaf);
    bool        dots    = letters <= 2 && strspn(leaf, ".") >= letters;
    if (!dots || !realpath(input, real)) return input;
    *bytes = strlen(real);
    return real;
}

/* "texts.speedrun" of "texts/" and of "texts.jsonl" */
static Status folder_name(char out[1024], const Options *o)
{
    char        real[PATH_MAX];
    size_t      bytes;
    const char *input = input_path(real, o->speedrun_input.text[0], &bytes);
    if (bytes == 0) return fail(BAD_OPTION, "--input has an empty path");
    const char *leaf = path_leaf(input, bytes), *dot = strchr(leaf + 1, '.');
    if (bytes == 1 && *input == '/')
        return fail(BAD_OPTION, "--input %s: no directory can be beside it; give --output DIR",
                    o->speedrun_input.text[0]);
    if (dot && dot < input + bytes) bytes = (size_t)(dot - input);
    snprintf(out, 1024, "%.*s.speedrun", (int)(bytes < 900 ? bytes : 900), input);
    return OK;
}

static Status stage_do(Speedrun *s, int i)
{
    char    time[24];
    int64_t began = seam.clock();
    bool gone = stages[i].product && !file_exists(speedrun_path(s, stages[i].product));
    if (speedrun_facts(s, stages[i].name) && !gone) {
        log_line("speedrun: %s: done before, kept", stages[i].name);
        return OK;
    }
    if (speedrun_facts(s, stages[i].name))
        log_line("speedrun: %s: %s is gone, and is made again", stages[i].name,
                 speedrun_path(s, stages[i].product));
    if (*s->stop) return fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    log_line("speedrun: %s (stage %d)", stages[i].what, i + 1);
    json_t *facts   = json_object();
    Status  status  = facts ? stages[i].run(s, facts) : fail(NO_MEMORY, "no memory for the state");
    double  seconds = seam_seconds_since(began) + json_number_value(json_object_get(facts, "seconds_before"));
    bool    kept    = !json_object_set_new(facts, "seconds", json_real(seconds)) &&
        (status != OK || !json_object_set(json_object_get(s->state, "stages"), stages[i].name, facts));
    json_decref(facts);
    TRY(status);
    TRY(kept ? speedrun_save(s) : fail(NO_MEMORY, "no memory for the state"));
    log_line("speedrun: %s took %s", stages[i].name, log_time(time, seconds));
    return OK;
}

/* What there is now, and the commands that use it. */
static void result_print(const Speedrun *s)
{
    char time[24];
    double documents = speedrun_number(s, "split", "heldout_documents");
    printf("bits per byte: %.4f on %.0f document%s held out (%.0f bytes)\n",
           speedrun_number(s, "evaluate", "bits_per_byte"), documents, documents == 1 ? "" : "s",
           speedrun_number(s, "split", "heldout_bytes"));
    printf("model: %.0f parameters, %.0f steps, %.1f passes over the text; its stages took %s\n",
           speedrun_number(s, "train", "parameters"), speedrun_number(s, "recipe", "steps"),
           speedrun_number(s, "recipe", "epochs"), log_time(time, speedrun_seconds(s)));
    printf("checkpoint: %s\ntransformers: %s\nmetrics: %s\n", speedrun_path(s, "checkpoint"),
           speedrun_path(s, "hf"), speedrun_path(s, "metrics.jsonl"));
    printf("report: %s\n", speedrun_path(s, "report.html"));
    printf("try it in a browser: jotun serve --load ");
    shell_word_write(stdout, speedrun_path(s, "checkpoint"));
    printf("\ntry it: jotun generate --load ");
    shell_word_write(stdout, speedrun_path(s, "checkpoint"));
    printf(" --prompt TEXT --temperature 0.8\n");
}

/* Nothing is left of a directory that this start has made where there is nothing in it, or where the budget
 * is too small, since another one keeps nothing. It stays where cleaned texts are too little: the message
 * names clean.html. */
static Status remove_refused(const Speedrun *s, Status status)
{
    Failure failure = { 0 };
    if (!s->state) return status;                   /* the directory is another run's, or could not be read */
    bool nothing = status == BAD_FILE && speedrun_nothing_done(s) &&
                   !file_exists(speedrun_path(s, "clean.json"));
    bool budget  = status == BAD_OPTION && s->made && !speedrun_facts(s, "recipe");
    if (!nothing && !budget) return status;
    failure_keep(&failure, status);
    if (folder_remove(s->folder) != OK) log_line("%s", fail_text());
    return failure_report(&failure);
}

Status cmd_speedrun(Options *o)
{
    char     named[1024];
    Speedrun s = { .o = o, .folder = named, .lock = -1 };
    TRY(take_words(o));
    TRY(options_derive(o));
    TRY(options_validate(o));
    TRY(size_check(o));
    TRY(speedrun_check_heldout(o));
    if (o->speedrun_output) s.folder = o->speedrun_output;
    else TRY(folder_name(named, o));
    if (!speedrun_begun(s.folder)) TRY(speedrun_inputs(&s.inputs, o));
    s.stop = signals_catch("\njotun: stops at the next place from which the run resumes; the same signal "
                           "again ends it at once\n");
    Status status = speedrun_open(&s);
    for (int i = 0; i < STAGES && status == OK; i++) status = stage_do(&s, i);
    if (status == OK) result_print(&s);
    status = remove_refused(&s, status);
    speedrun_close(&s);
    return status;
}
