/* Options of jotun train from the arguments of fairseq-train that are used together: data, model, optimizer
 * and schedule, checkpoints. Batches and epochs are in fairseq_batches.c. */
#include "compat/fairseq/fairseq_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"

static const Architecture architectures[] = {       /* layers, hidden, ffn, heads; attention dropout */
    { "transformer_lm",                            6,    512,  2048,     8, "0.0", "relu", false },
    { "transformer_lm_big",                   12,   1024,  4096,    16, "0.0", "relu", false },
    { "transformer_lm_gpt",                   12,    768,  3072,    12, "0.1", "gelu", false },
    { "transformer_lm_gpt2_small",     24,   1024,  4096,    16, "0.1", "gelu", false },
    { "transformer_lm_gpt2_medium",   36,   1280,  5120,    20, "0.1", "gelu", false },
    { "transformer_lm_gpt2_big",         48,   1600,  6400,    25, "0.1", "gelu", false },
    { "transformer_lm_megatron",         72,   3072, 12288,    32, "0.1", "gelu", true },
    { "transformer_lm_megatron_11b",     72,   3072, 18432,    32, "0.1", "gelu", true },
};
/* What fairseq has where nothing is given, and jotun has another default. */
static const struct { OptionIndex option; const char *value; } standards[] = {
    { OPTION_seed, "1" },
    { OPTION_log_interval, "100" },
    { OPTION_log_format, "epochs" },
    { OPTION_sequence, "1024" },
    { OPTION_sample_break, "none" },
    { OPTION_position, "sinusoidal" },
    { OPTION_init_xavier, "true" },
    { OPTION_hidden_dropout, "0.1" },
    { OPTION_tokenizer, "none" },
    { OPTION_weight_decay, "0" },
    { OPTION_decay_all, "true" },
    { OPTION_clip_grad, "0" },
    { OPTION_lr, "0.25" },
};
enum { ARCHITECTURES = COUNT(architectures) };

/* ---- data ---- */

/* Entries of the dictionary: each line is one, behind four that are not in the file. Architectures with model
 * parallelism fill it up, so that ranks have equal parts. */
static Status give_vocabulary(Options *o, const Fairseq *f)
{
    char path[1200];
    FileMap map;
    int64_t ids = 4, multiple = f->architecture->parallel ? 8 * o->tensor_parallel : 1;
    if (options_said(o, OPTION_vocabulary)) return OK;
    fairseq_path(path, f, "dict.txt");
    if (!file_exists(path))
        return fail(BAD_FILE,
                    "%s: no such file; fairseq-preprocess writes the dictionary there, beside the token "
                    "files",
                    path);
    TRY(file_map(&map, path));
    for (size_t i = 0; i < map.size; i++)
        ids += map.data[i] == '\n' || i + 1 == map.size;
    file_unmap(&map);
    return fairseq_give(o, OPTION_vocabulary, path, "%" PRId64, (ids + multiple - 1) / multiple * multiple);
}

static Status give_validation_names(Options *o, const Fairseq *f)
{
    char names[1000], *rest;
    TRY(fairseq_give(o, OPTION_several_valid, "--valid-subset", "true"));
    if (options_typed_by_person(o, OPTION_valid_names)) return OK;
    snprintf(names, sizeof names, "%s", f->valid_subset);
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        TRY(fairseq_give_typed(o, f, OPTION_valid_names, HELD_valid_subset, "%s", name));
    return OK;
}

/* Validation sets are several words with commas between, which are their names in the log. */
static Status give_validation(Options *o, const Fairseq *f)
{
    char path[1200], names[1000], *rest;
    int  sets = 0;
    bool named = false;                                   /* otherwise than the only set of a run */
    if (f->no_validation) return OK;
    snprintf(names, sizeof names, "%s", f->valid_subset);
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        char index[200];
        snprintf(index, sizeof index, "%.150s.idx", name);
        if (!f->typed[HELD_valid_subset] && !file_exists(fairseq_path(path, f, index))) {
            log_line("%s: no such file: nothing is evaluated", path);
            return OK;
        }
        TRY(fairseq_subset(f, name, HELD_valid_subset));
        TRY(fairseq_give_typed(o, f, OPTION_valid_data_path, HELD_valid_subset, "%s",
                               fairseq_path(path, f, name)));
        named |= sets++ > 0 || strcmp(name, "valid") != 0;
    }
    if (named) TRY(give_validation_names(o, f));
    return fairseq_give(o, OPTION_full_validation, "fairseq's default", "true");
}

static Status give_data(Options *o, const Fairseq *f)
{
    char path[1200], more[180];
    if (o->mock_data || options_said(o, OPTION_train_data_path) || options_said(o, OPTION_data_path))
        return OK;
    snprintf(more, sizeof more, "%.150s1.idx", f->train_subset);
    if (file_exists(fairseq_path(path, f, more)))
        return fail(BAD_FILE,
                    "%s: fairseq reads %s, %s1 and so on together; jotun data merge makes them one, and "
                    "--train-data-path names it",
                    path, f->train_subset, f->train_subset);
    TRY(fairseq_subset(f, f->train_subset, HELD_train_subset));
    TRY(fairseq_give(o, OPTION_train_data_path, f->data, "%s", fairseq_path(path, f, f->train_subset)));
    return give_validation(o, f);
}

/* ---- the model ---- */

static Status find_architecture(Fairseq *f)
{
    char known[512] = "";
    for (int i = 0; i < ARCHITECTURES; i++) {
        if (!strcmp(f->arch, architectures[i].name)) f->architecture = &architectures[i];
        message_item(known, sizeof known, ", ", "%s", architectures[i].name);
    }
    if (f->architecture) return OK;
    if (!*f->arch) return fail(BAD_USAGE, "fairseq-train needs --arch: %s", known);
    return fail(BAD_OPTION, "%s %s is not known; give one of %s", f->typed[HELD_arch], f->arch, known);
}

static Status give_architecture(Options *o, const Fairseq *f)
{
    const Architecture *a = f->architecture;
    char from[128];
    snprintf(from, sizeof from, "--arch %s", a->name);
    TRY(fairseq_give(o, OPTION_layers, from, "%" PRId64, a->layers));
    TRY(fairseq_give(o, OPTION_hidden, from, "%" PRId64, a->hidden));
    TRY(fairseq_give(o, OPTION_ffn, from, "%" PRId64, a->ffn));
    TRY(fairseq_give(o, OPTION_heads, from, "%" PRId64, a->heads));
    return fairseq_give(o, OPTION_attention_dropout, from, "%s", a->dropout);
}

static Status give_activation(Options *o, const Fairseq *f)
{
    const char *word = f->typed[HELD_activation] ? f->activation : f->architecture->activation;
    bool tanh = !strcmp(word, "gelu_fast") || !strcmp(word, "gelu_accurate");
    if (!strcmp(word, "relu")) return fairseq_give_typed(o, f, OPTION_relu, HELD_activation, "true");
    if (tanh || !strcmp(word, "gelu"))
        return fairseq_give_typed(o, f, OPTION_gelu_approximate, HELD_activation, "%s",
                                  tanh ? "tanh" : "none");
    return fail(BAD_OPTION, "%s %s is refused: the MLP has ReLU (relu), GELU by erf (gelu) or by tanh "
                "(gelu_fast, gelu_accurate); give one of these", f->typed[HELD_activation], word);
}

/* Token embeddings are multiplied by the root of their width, of which they have the inverse as deviation. */
static Status give_embedding(Options *o, const Fairseq *f)
{
    double width = (double)o->hidden;
    if (!options_typed_by_person(o, OPTION_embedding_factor))
        TRY(fairseq_give(o, OPTION_embedding_factor, "--decoder-embed-dim", "%.17g", sqrt(width)));
    TRY(fairseq_give(o, OPTION_embedding_std, "--decoder-embed-dim", "%.17g", 1 / sqrt(width)));
    if (f->shared) return OK;
    return fairseq_give(o, OPTION_untie, "no --share-decoder-input-output-embed", "true");
}

/* ---- optimizer and schedule ---- */

/* "(0.9, 0.98)", with other brackets or none */
static Status give_betas(Options *o, const Fairseq *f)
{
    double beta[2];
    char   end;
    const char *t = f->adam_betas + strspn(f->adam_betas, " ");
    bool open = *t == '(' || *t == '[';
    int  read = sscanf(t + open, "%lf , %lf %c", &beta[0], &beta[1], &end);
    bool right = open ? read == 3 && (end == ')' || end == ']') : read == 2;
    for (int i = 0; right && i < 2; i++) right = beta[i] >= 0 && beta[i] < 1;
    if (!right)
        return fail(BAD_OPTION, "%s %s is not two numbers from 0 to below 1; give \"(0.9, 0.98)\"",
                    f->typed[HELD_adam_betas], f->adam_betas);
    TRY(fairseq_give_typed(o, f, OPTION_adam_beta1, HELD_adam_betas, "%.17g", beta[0]));
    return fairseq_give_typed(o, f, OPTION_adam_beta2, HELD_adam_betas, "%.17g", beta[1]);
}

static Status give_optimizer(Options *o, const Fairseq *f)
{
    if (!*f->optimizer)
        return fail(BAD_USAGE, "fairseq-train needs --optimizer: adam, or sgd");
    if (!strcmp(f->optimizer, "sgd")) {
        TRY(fairseq_give(o, OPTION_sgd_momentum, "fairseq's default", "0"));
        return fairseq_give_typed(o, f, OPTION_optimizer, HELD_optimizer, "sgd");
    }
    if (strcmp(f->optimizer, "adam") && strcmp(f->optimizer, "cpu_adam"))
        return fail(BAD_OPTION,
                    "%s %s of fairseq is refused: it is not built under this name; give adam or sgd",
                    f->typed[HELD_optimizer], f->optimizer);
    TRY(fairseq_give(o, OPTION_adam_eps_uncorrected, "fairseq's Adam", "true"));
    TRY(fairseq_give_typed(o, f, OPTION_optimizer, HELD_optimizer, "adam"));
    return give_betas(o, f);
}

/* fixed: update k has k / w of the rate, which is a warm-up from lr / w over w - 1 steps. */
static Status give_fixed(Options *o, const Fairseq *f)
{
    int64_t w = f->warmup_updates > 0 ? f->warmup_updates : 0;
    TRY(fairseq_give_typed(o, f, OPTION_lr_decay_style, HELD_lr_scheduler, "constant"));
    if (w < 2) return OK;
    TRY(fairseq_give_typed(o, f, OPTION_lr_warmup_iters, HELD_warmup_updates, "%" PRId64, w - 1));
    return fairseq_give(o, OPTION_lr_warmup_init, "--lr-scheduler fixed", "%.17g", o->lr / (double)w);
}

static Status give_inverse_sqrt(Options *o, const Fairseq *f)
{
    int64_t w = f->typed[HELD_warmup_updates] ? f->warmup_updates : 4000;
    if (w == 0)
        return fail(BAD_OPTION,
                    "%s 0: inverse_sqrt decays from the end of its warm-up, and has no learning rate "
                    "without one; give 1 or more",
                    f->typed[HELD_warmup_updates]);
    TRY(fairseq_give_typed(o, f, OPTION_lr_decay_style, HELD_lr_scheduler, "inverse-square-root"));
    return fairseq_give_typed(o, f, OPTION_lr_warmup_iters, HELD_warmup_updates, "%" PRId64, w);
}

static Status give_polynomial(Options *o, const Fairseq *f)
{
    TRY(fairseq_give_typed(o, f, OPTION_lr_decay_style, HELD_lr_scheduler, "linear"));
    TRY(fairseq_give_typed(o, f, OPTION_min_lr, HELD_end_learning_rate, "%.17g", f->end_learning_rate));
    if (f->typed[HELD_total_num_update])
        TRY(fairseq_give_typed(o, f, OPTION_lr_decay_iters, HELD_total_num_update, "%.0f",
                               f->total_num_update));
    if (f->warmup_updates <= 0) return OK;
    return fairseq_give_typed(o, f, OPTION_lr_warmup_iters, HELD_warmup_updates, "%" PRId64,
                              f->warmup_updates);
}

static Status give_cosine(Options *o, const Fairseq *f)
{
    int64_t w = f->warmup_updates > 0 ? f->warmup_updates : 0;
    double  period = f->lr_period_updates;
    if (period > 0 && period < (double)(f->max_update - w))
        return fail(BAD_OPTION,
                    "%s %g: periods after the first one are not built; give %lld, up to --max-update, or "
                    "leave it out",
                    f->typed[HELD_lr_period_updates], period, (long long)(f->max_update - w));
    TRY(fairseq_give_typed(o, f, OPTION_lr_decay_style, HELD_lr_scheduler, "cosine"));
    TRY(fairseq_give_typed(o, f, OPTION_min_lr, HELD_min_lr, "%.17g", f->min_lr));
    if (period > 0)
        TRY(fairseq_give_typed(o, f, OPTION_lr_decay_iters, HELD_lr_period_updates, "%.0f",
                               (double)w + period));
    if (w == 0) return OK;
    if (f->warmup_init_lr < 0) TRY(fairseq_give(o, OPTION_lr_warmup_init, "--min-lr", "%.17g", f->min_lr));
    return fairseq_give_typed(o, f, OPTION_lr_warmup_iters, HELD_warmup_updates, "%" PRId64, w);
}

static Status give_schedule(Options *o, const Fairseq *f)
{
    static const struct {
        const char *name;
        Status (*give)(Options *o, const Fairseq *f);
        bool init;
    } scheduler[] = {
        { "fixed", give_fixed, false },
        { "inverse_sqrt", give_inverse_sqrt, true },
        { "polynomial_decay", give_polynomial, false },
        { "cosine", give_cosine, true },
    };
    for (size_t i = 0; i < COUNT(scheduler); i++) {
        if (strcmp(f->lr_scheduler, scheduler[i].name)) continue;
        TRY(scheduler[i].give(o, f));
        if (f->warmup_init_lr < 0) return OK;
        if (scheduler[i].init)
            return fairseq_give_typed(o, f, OPTION_lr_warmup_init, HELD_warmup_init_lr, "%.17g",
                                      f->warmup_init_lr);
        return fail(BAD_OPTION, "%s is of inverse_sqrt and cosine; --lr-scheduler %s has none",
                    f->typed[HELD_warmup_init_lr], f->lr_scheduler);
    }
    return fail(BAD_OPTION, "%s %s is not built; give inverse_sqrt, polynomial_decay, cosine or fixed",
                f->typed[HELD_lr_scheduler], f->lr_scheduler);
}

/* fairseq's scaler: every overflow halves the scale. */
static Status give_precision(Options *o, const Fairseq *f)
{
    if (f->half_weights) TRY(fairseq_give_typed(o, f, OPTION_fp16, HELD_half_weights, "true"));
    if (f->bf16_weights) TRY(fairseq_give_typed(o, f, OPTION_bf16, HELD_bf16_weights, "true"));
    if (f->half_weights || f->bf16_weights)
        log_line("%s: the optimizer keeps FP32 weights all the same, 4 bytes for each parameter, so that "
                 "small updates "
                 "are not rounded away",
                 f->typed[f->half_weights ? HELD_half_weights : HELD_bf16_weights]);
    if (!o->fp16) return OK;
    TRY(fairseq_give_typed(o, f, OPTION_initial_loss_scale, HELD_init_scale, "%.17g", f->init_scale));
    TRY(fairseq_give(o, OPTION_hysteresis, "fairseq's loss scale", "1"));
    int least = f->typed[HELD_threshold_scale] ? HELD_threshold_scale : HELD_min_scale;
    return fairseq_give_typed(o, f, OPTION_min_loss_scale, least, "%.17g",
                      f->typed[HELD_threshold_scale] ? f->threshold_scale : f->min_scale);
}

/* ---- checkpoints ---- */

/* As there: a run that has a checkpoint continues from it, and only a new one begins with the other weights.
 */
static Status give_finetune(Options *o, const Fairseq *f)
{
    static const OptionIndex parts[] = { OPTION_no_load_optim, OPTION_override_schedule };
    const char *typed = f->typed[HELD_finetune_from];
    char latest[1200];
    for (size_t i = 0; i < COUNT(parts); i++)
        if (options_typed_by_person(o, parts[i]))
            return fail(BAD_OPTION, "%s and %s: a run that begins with another one's weights has its own "
                        "optimizer and schedule; leave the second out", typed, o->source[parts[i]].name);
    if (strcmp(f->restore_file, "checkpoint_last.pt"))
        return fail(BAD_OPTION, "%s %s and %s %s both say what the run begins with; leave one out", typed,
                    f->finetune_from, f->typed[HELD_restore_file], f->restore_file);
    snprintf(latest, sizeof latest, "%.1000s/latest", f->save_dir);
    if (file_exists(latest)) {
        log_line("%s %s is not read: the run continues from its checkpoint in %s; another --save-dir begins "
                 "a new one", typed, f->finetune_from, f->save_dir);
        return fairseq_give(o, OPTION_load, "--save-dir", "%s", f->save_dir);
    }
    TRY(fairseq_give_typed(o, f, OPTION_finetune, HELD_finetune_from, "true"));
    if (fairseq_is_file(f->finetune_from) && fairseq_own(f->finetune_from))
        return fairseq_give_typed(o, f, OPTION_load, HELD_finetune_from, "fairseq:%s", f->finetune_from);
    if (file_exists(f->finetune_from))
        return fairseq_give_typed(o, f, OPTION_load, HELD_finetune_from, "%s", f->finetune_from);
    return fail(BAD_OPTION, "%s %s: no such file or folder; give a checkpoint of fairseq's own (model.pt), "
                "or the folder of one that fairseq-train has saved here", typed, f->finetune_from);
}

static Status give_checkpoints(Options *o, const Fairseq *f)
{
    bool last = !strcmp(f->restore_file, "checkpoint_last.pt");
    if (!f->no_save) TRY(fairseq_give_typed(o, f, OPTION_save, HELD_save_dir, "%s", f->save_dir));
    if (f->stop_time_hours > 0)
        TRY(fairseq_give_typed(o, f, OPTION_exit_duration, HELD_stop_time_hours, "%.17g",
                               60 * f->stop_time_hours));
    if (f->typed[HELD_finetune_from]) return give_finetune(o, f);
    if (!strcmp(f->restore_file, "checkpoint_best.pt"))
        return fairseq_give_typed(o, f, OPTION_load, HELD_restore_file, "%s/best", f->save_dir);
    if (last && file_exists(f->save_dir))
        return fairseq_give(o, OPTION_load, "--save-dir", "%s", f->save_dir);
    if (last) return OK;
    bool file = fairseq_is_file(f->restore_file);
    if (file && fairseq_own(f->restore_file))
        return fairseq_give_typed(o, f, OPTION_load, HELD_restore_file, "fairseq:%s", f->restore_file);
    if (file)
        return fail(BAD_OPTION,
                    "%s %s: no such file; checkpoints of fairseq-train here are folders: give that of "
                    "--save-dir, or leave it out to go on from the last checkpoint there",
                    f->typed[HELD_restore_file], f->restore_file);
    return fairseq_give_typed(o, f, OPTION_load, HELD_restore_file, "%s", f->restore_file);
}

/* ---- the command ---- */

/* The architecture comes first, since arguments override it. */
Status fairseq_train_complete(Options *o, Fairseq *f)
{
    TRY(find_architecture(f));
    for (size_t i = 0; i < COUNT(standards); i++)
        TRY(fairseq_give(o, standards[i].option, "fairseq's default", "%s", standards[i].value));
    TRY(give_architecture(o, f));
    if (strcmp(f->task, "language_modeling"))
        return fail(*f->task ? BAD_OPTION : BAD_USAGE, "--task%s%s: %s; give --task language_modeling",
                    *f->task ? " " : "", f->task,
                    *f->task ? "only language models are trained" : "without it fairseq translates");
    TRY(give_activation(o, f));
    TRY(give_embedding(o, f));
    TRY(give_checkpoints(o, f));
    /* A checkpoint says by its rows how large the vocabulary is: it was filled up for the parts of the run
     * that wrote it, and this one may have others. */
    if (!o->mock_data && !fairseq_has_checkpoint(o->load)) TRY(give_vocabulary(o, f));
    TRY(give_data(o, f));
    TRY(give_optimizer(o, f));
    TRY(give_schedule(o, f));
    TRY(give_precision(o, f));
    return fairseq_give_batch(o, f);
}
