/* Options of jotun eval perplexity from the arguments of fairseq-eval-lm that are used together. */
#include "compat/fairseq/fairseq_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "conf/conf.h"

static int64_t larger (int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* A checkpoint of fairseq's own, which is a file or, of model parallelism, its parts; else the folder that a
 * path of fairseq means: itself, or that of the file that it names, which is not there. */
static Status give_model(Options *o, const Fairseq *f)
{
    char folder[1200];
    if (!*f->path) return fail(BAD_USAGE, "fairseq-eval-lm needs --path: the folder of a checkpoint");
    snprintf(folder, sizeof folder, "%s", f->path);
    size_t letters = strlen(folder);
    bool   file = letters > 3 && !strcmp(folder + letters - 3, ".pt");
    if (file && fairseq_own(f->path))
        return fairseq_give_typed(o, f, OPTION_load, HELD_path, "fairseq:%s", f->path);
    char *slash = strrchr(folder, '/');
    if (file) snprintf(slash ? slash : folder, 2, "%s", slash ? "" : ".");
    return fairseq_give_typed(o, f, OPTION_load, HELD_path, "%s", folder);
}

/* fairseq evaluates in the type that its arguments say, whatever the model was trained in. */
static Status give_type(Options *o, const Fairseq *f)
{
    if (f->half_weights) TRY(fairseq_give_typed(o, f, OPTION_fp16, HELD_half_weights, "true"));
    if (f->bf16_weights) TRY(fairseq_give_typed(o, f, OPTION_bf16, HELD_bf16_weights, "true"));
    if (!o->fp16) TRY(fairseq_give(o, OPTION_fp16, "fairseq's default", "false"));
    return o->bf16 ? OK : fairseq_give(o, OPTION_bf16, "fairseq's default", "false");
}

enum { EVALUATED_TOKENS = 36000 };              /* --max-tokens of fairseq-eval-lm, where it is not given */

Status fairseq_eval_complete(Options *o, Fairseq *f)
{
    char path[1200];
    int64_t micro;
    if (*f->task && strcmp(f->task, "language_modeling"))
        return fail(BAD_OPTION,
                    "--task %s: language models alone are evaluated; give --task language_modeling", f->task);
    TRY(give_model(o, f));
    TRY(fairseq_subset(f, f->gen_subset, HELD_gen_subset));
    TRY(fairseq_give_typed(o, f, OPTION_data_path, HELD_gen_subset, "%s",
                           fairseq_path(path, f, f->gen_subset)));
    if (!options_said(o, OPTION_context)) TRY(fairseq_give(o, OPTION_context, "fairseq's default", "1024"));
    if (!options_said(o, OPTION_sample_break))
        TRY(fairseq_give(o, OPTION_sample_break, "fairseq's default", "none"));
    if (f->context_window >= o->context)
        return fail(BAD_OPTION,
                    "%s %" PRId64 " leaves no token of --tokens-per-sample %" PRId64 " to be predicted; "
                    "give less",
                    f->typed[HELD_context_window], f->context_window, o->context);
    if (f->context_window)
        TRY(fairseq_give_typed(o, f, OPTION_overlap, HELD_context_window, "%" PRId64, f->context_window));
    TRY(give_type(o, f));
    int64_t own = o->context - f->context_window, window = o->context;     /* its context is computed too */
    int64_t tokens = f->max_tokens ? f->max_tokens : larger(EVALUATED_TOKENS, window);
    TRY(fairseq_micro(&micro, o, f, larger(own, smaller(tokens, window)), tokens));
    return fairseq_give_typed(o, f, OPTION_micro_batch, HELD_batch_size, "%" PRId64, micro);
}

/* fairseq leaves out windows whose own tokens are more than the model's positions, with a line in its log: of
 * --sample-break-mode none all but the last. The context before them may go beyond sinusoidal positions, but
 * not beyond learned ones. */
Status fairseq_eval_fits(const Options *o, const Fairseq *f)
{
    bool    typed = o->source[OPTION_context].kind == SOURCE_COMMAND_LINE;
    bool    learned = o->position.value == CHOICE_position_learned_absolute;
    int64_t own = learned ? o->context : o->context - f->context_window;
    if (own <= o->positions) return OK;
    return fail(BAD_OPTION,
                "--tokens-per-sample %s%" PRId64 "%s, which is more than the %" PRId64 " positions of the "
                "model of --path: fairseq leaves such windows out; give --tokens-per-sample %" PRId64,
                typed ? "" : "is by default ", o->context,
                own < o->context ? " without --context-window" : "", o->positions,
                o->positions + o->context - own);
}
