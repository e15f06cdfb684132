/* Options of jotun eval perplexity from the arguments of fairseq-eval-lm that are used together. */
#include "compat/fairseq/fairseq_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/integer.h"
#include "conf/value.h"

/* A checkpoint of fairseq's own, which is a file or, of model parallelism, its parts; else the folder that a
 * path of fairseq means: itself, or that of the file that it names, which is not there. */
static Status give_model(Options *o, const Fairseq *f)
{
    char folder[1200];
    if (!*f->path) return fail(BAD_USAGE, "fairseq-eval-lm needs --path: the folder of a checkpoint");
    snprintf(folder, sizeof folder, "%s", f->path);
    bool file = fairseq_is_file(folder);
    if (file && fairseq_own(f->path))
        return fairseq_give_typed(o, f, OPTION_load, HELD_path, "fairseq:%s", f->path);
    char *slash = strrchr(folder, '/');
    if (file) snprintf(slash ? slash : folder, 2, "%s", slash ? "" : ".");
    return fairseq_give_typed(o, f, OPTION_load, HELD_path, "%s", folder);
}

/* The folder of jotun's own has a checkpoint. */
static Status check_model(const Options *o, const Fairseq *f)
{
    bool file = fairseq_is_file(f->path);
    if (fairseq_has_checkpoint(o->load)) return OK;
    return fail(BAD_FILE, "%s %s: %s%s%sholds no checkpoint; give a file of fairseq's own (model.pt), or the "
                "folder that fairseq-train --save-dir wrote", f->typed[HELD_path], f->path,
                file ? "no such file, and " : "", file ? o->load : "", file ? " " : "");
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
                    "--task %s: only language models are evaluated; give --task language_modeling", f->task);
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
    TRY(fairseq_give(o, OPTION_log_format, "fairseq's default", "epochs"));
    TRY(give_type(o, f));
    int64_t own = o->context - f->context_window, window = o->context;     /* its context is computed too */
    int64_t tokens = f->max_tokens ? f->max_tokens : most_of(EVALUATED_TOKENS, window);
    TRY(fairseq_micro(&micro, o, f, most_of(own, least(tokens, window)), tokens));
    TRY(fairseq_give_typed(o, f, OPTION_micro_batch, HELD_batch_size, "%" PRId64, micro));
    return check_model(o, f);
}

/* fairseq leaves out windows whose own tokens are more than the model's positions, with a line in its log:
 * of --sample-break-mode none all but the last. The context before them may go beyond sinusoidal positions,
 * but not beyond learned ones, which is a rule for all. */
void fairseq_eval_demand(Options *o, const Fairseq *f)
{
    char    least[24], before[200];
    bool    typed = o->source[OPTION_context].kind == SOURCE_COMMAND_LINE;
    int64_t own = o->context - f->context_window;
    snprintf(least, sizeof least, "%" PRId64, own);
    snprintf(before, sizeof before, "--tokens-per-sample %s%" PRId64 "%s, which is more than the ",
             typed ? "" : "is by default ", o->context, f->context_window ? " without --context-window" : "");
    options_demand(o, (OptionDemand){ OPTION_positions, DEMAND_AT_LEAST, least, before,
                   " positions of the model of --path: fairseq leaves such windows out; give "
                   "--tokens-per-sample ",
                   f->context_window });
}
