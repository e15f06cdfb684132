/* Batches and epochs of fairseq-train: samples of a micro-batch, micro-batches of a step, which --update-freq
 * may change by epoch, and what is counted in epochs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/integer.h"
#include "base/log.h"
#include "base/message.h"
#include "compat/fairseq/fairseq_internal.h"

/* ---- one batch ---- */

/* Samples that a rank computes at once: fairseq's batches have a multiple of --required-batch-size-multiple
 * samples, or fewer. */
Status fairseq_micro(int64_t *micro, const Options *o, const Fairseq *f, int64_t sequence, int64_t max_tokens)
{
    int64_t most = f->batch_size, by_tokens = max_tokens / sequence, multiple = f->batch_multiple;
    const char *typed = f->typed[HELD_max_tokens] ? f->typed[HELD_max_tokens] : "--max-tokens";
    if (max_tokens && by_tokens == 0)
        return fail(BAD_OPTION,
                    "%s %" PRId64 " is less than the %" PRId64 " tokens of a sample (--tokens-per-sample%s); "
                    "give that or more",
                    typed, max_tokens, sequence, f->context_window ? " without --context-window" : "");
    if (max_tokens && (!most || by_tokens < most)) most = by_tokens;
    if (!most)
        return fail(BAD_USAGE, "%s needs --batch-size, the samples of a rank, or --max-tokens, its tokens",
                    fairseq_command(o));
    int64_t rest = most % multiple, whole = most - rest;
    *micro = whole > rest ? whole : rest;
    if (*micro < most)
        log_line("batches have %" PRId64 " samples, a multiple of --required-batch-size-multiple %" PRId64
                 ", instead of %" PRId64, *micro, multiple, most);
    return OK;
}

/* "4", "1,2,4", "[1, 2, 4]": micro-batches of a step in each epoch; the last number stays. */
static Status read_frequencies(Fairseq *f)
{
    const char *text = f->update_freq + strspn(f->update_freq, " ([");
    bool right = true;
    f->freqs = 0;
    for (bool more = true; more && right;) {
        char *end;
        long long number = strtoll(text, &end, 10);
        right = end != text && number >= 1 && number <= 1 << 20 && f->freqs < FREQUENCIES_MAX;
        if (right) f->freq[f->freqs++] = number;
        text = end + strspn(end, " ");
        more = *text == ',';
        text += more;
    }
    text += strspn(text, " )]");
    if (!right || *text)
        return fail(BAD_OPTION,
                    "%s %s: give a whole number from 1 on, or up to %d of them with commas between, one for "
                    "each epoch, of which the last one stays: 1,2,4", f->typed[HELD_update_freq],
                    f->update_freq, FREQUENCIES_MAX);
    while (f->freqs > 1 && f->freq[f->freqs - 1] == f->freq[f->freqs - 2]) f->freqs--;
    return OK;
}

/* Intervals are of one number of steps, and epochs are not where their batches differ. */
static void tell_intervals(const Fairseq *f)
{
    bool evaluates = !f->no_validation && !f->validate_updates, saves = !f->no_save && !f->save_updates;
    if (f->freqs == 1 || (!evaluates && !saves)) return;
    log_line("%s %s: epochs have different numbers of steps; evaluations and checkpoints are so many steps "
             "apart as an epoch of the last number has; --validate-interval-updates and "
             "--save-interval-updates give others", f->typed[HELD_update_freq], f->update_freq);
}

Status fairseq_give_batch(Options *o, Fairseq *f)
{
    int argument = f->typed[HELD_batch_size] ? HELD_batch_size : HELD_max_tokens;
    TRY(read_frequencies(f));
    TRY(fairseq_micro(&f->micro, o, f, o->sequence, f->max_tokens));
    if (!f->max_update && !f->max_epoch)
        return fail(BAD_USAGE, "fairseq-train needs --max-update or --max-epoch, the end of the run");
    tell_intervals(f);
    TRY(fairseq_give(o, OPTION_train_iters, "--max-update", "%" PRId64,
                     f->max_update ? f->max_update : 1)); /* or later */
    TRY(fairseq_give_typed(o, f, OPTION_micro_batch, argument, "%" PRId64, f->micro));
    if (!f->typed[HELD_batch_size_valid] && !f->typed[HELD_max_tokens_valid]) return OK;
    Fairseq valid = *f;
    int     of_valid = f->typed[HELD_batch_size_valid] ? HELD_batch_size_valid : HELD_max_tokens_valid;
    int64_t micro;
    if (f->batch_size_valid) valid.batch_size = f->batch_size_valid;
    TRY(fairseq_micro(&micro, o, &valid, o->sequence,
                      f->max_tokens_valid ? f->max_tokens_valid : f->max_tokens));
    return fairseq_give_typed(o, f, OPTION_eval_micro_batch, of_valid, "%" PRId64, micro);
}

/* ---- epochs ---- */

/* Bytes of a file; -1: it is not there. */
static int64_t file_bytes(const char *path)
{
    FileMap map;
    if (!file_exists(path) || file_map(&map, path) != OK) return -1;
    int64_t bytes = (int64_t)map.size;
    file_unmap(&map);
    return bytes;
}

/* Samples of an epoch where blocks are only of numbers; 0: it is not known here. */
static int64_t epoch_samples(const Options *o, const Fairseq *f)
{
    char path[1200], file[180];
    FileMap map;
    if (o->mock_data || o->sample_break.value != CHOICE_sample_break_none) return 0;
    snprintf(file, sizeof file, "%.150s.idx", f->train_subset);
    if (!file_exists(fairseq_path(path, f, file)) || file_map(&map, path) != OK) return 0;
    int width = map.size > 17 && map.data[17] == 8 ? 2 : 4;                    /* the type of the ids */
    file_unmap(&map);
    snprintf(file, sizeof file, "%.150s.bin", f->train_subset);
    int64_t bytes = file_bytes(fairseq_path(path, f, file));
    return bytes <= 0 ? 0 : (bytes / width + o->sequence - 1) / o->sequence;
}

/* The samples of an epoch, and of a step of one micro-batch. */
typedef struct { int64_t samples, unit; } Epoch;

/* Steps of the epoch e, counted from 0; the last one of an epoch may need samples of the next. */
static int64_t steps_of(const Fairseq *f, Epoch x, int64_t e)
{
    int64_t batch = x.unit * f->freq[e < f->freqs ? e : f->freqs - 1];
    return (x.samples + batch - 1) / batch;
}

static int64_t steps_of_epochs(const Fairseq *f, Epoch x, int64_t epochs)
{
    int64_t steps = 0, own = least(epochs, f->freqs);
    for (int64_t e = 0; e < own; e++) steps += steps_of(f, x, e);
    return steps + (epochs - own) * steps_of(f, x, f->freqs);
}

/* fairseq's learning rate counts updates, whatever their batches. A batch size changes with the step that
 * begins the epoch, said in tokens. */
static Status give_frequencies(Options *o, const Fairseq *f, Epoch x)
{
    enum { TOKENS_MAX = 1 << 30 };
    char    sizes[FREQUENCIES_MAX * 40] = "";
    int64_t from = 0, sequence = o->sequence;
    const char *typed = f->typed[HELD_update_freq];
    if (f->freqs == 1) return OK;
    if (options_typed_by_person(o, OPTION_step_batch) || options_typed_by_person(o, OPTION_rampup_batch))
        return fail(BAD_OPTION, "%s %s and --%s both change the batch during a run; leave one out", typed,
                    f->update_freq, option_rows[options_typed_by_person(o, OPTION_step_batch)
                                                    ? OPTION_step_batch : OPTION_rampup_batch].name);
    if (!x.samples)
        return fail(BAD_OPTION,
                    "%s %s: which step begins an epoch is known only of --sample-break-mode none and token "
                    "files; give one number, and --step-batch-size-schedule \"0:%" PRId64 " TOKENS:%" PRId64
                    "\" for a batch that changes after so many tokens", typed, f->update_freq,
                    x.unit * f->freq[0], x.unit * f->freq[f->freqs - 1]);
    for (int e = 0; e < f->freqs && from <= INT64_MAX / TOKENS_MAX / sequence; e++) {
        message_item(sizes, sizeof sizes, " ", "%" PRId64 ":%" PRId64, from * sequence, x.unit * f->freq[e]);
        from += steps_of(f, x, e) * x.unit * f->freq[e];
    }
    TRY(fairseq_give(o, OPTION_step_batch, "--update-freq and the samples of an epoch", "%s", sizes));
    return fairseq_give(o, OPTION_lr_unit, "--update-freq", "steps");
}

/* Evaluations and checkpoints are at the ends of epochs, unless updates are counted, and after the last step.
 */
static Status derive_epochs(Options *o, const Fairseq *f, Epoch x)
{
    int64_t last = f->max_update ? f->max_update : INT64_MAX / 2;
    if (!x.samples && f->max_epoch)
        return fail(BAD_OPTION,
                    "%s %" PRId64 ": how many steps an epoch has is known only of --sample-break-mode none;"
                    " give --max-update",
                    f->typed[HELD_max_epoch], f->max_epoch);
    if (f->max_epoch) last = least(last, steps_of_epochs(f, x, f->max_epoch));
    TRY(fairseq_give_typed(o, f, OPTION_train_iters, f->max_epoch ? HELD_max_epoch : HELD_max_update,
                           "%" PRId64, last));
    int64_t each = x.samples ? steps_of(f, x, f->freqs) : last;
    int64_t evaluates = f->validate_updates ? f->validate_updates : each * f->validate_interval;
    int64_t saves = f->save_updates ? f->save_updates : each * f->save_interval;
    if (options_said(o, OPTION_valid_data_path))
        TRY(fairseq_give(o, OPTION_eval_interval, "--validate-interval", "%" PRId64,
                         least(evaluates, last)));
    if (f->no_save) return OK;
    return fairseq_give(o, OPTION_save_interval, "--save-interval", "%" PRId64, least(saves, last));
}

static Status derive(Options *o, const Fairseq *f)
{
    int64_t dp = options_data_parallel(o), window = (1 << 14) / dp / f->freq[0];
    Epoch   epoch = { epoch_samples(o, f), f->micro * dp };
    TRY(give_frequencies(o, f, epoch));
    TRY(fairseq_give(o, OPTION_global_batch, "--batch-size, --update-freq and the data-parallel ranks",
                     "%" PRId64, epoch.unit * f->freq[f->freqs - 1]));
    if (o->fp16)
        TRY(fairseq_give_typed(o, f, OPTION_loss_scale_window, HELD_scale_window, "%" PRId64,
                       f->typed[HELD_scale_window] ? f->scale_window : window > 0 ? window : 1));
    TRY(derive_epochs(o, f, epoch));
    bool past = o->lr_decay_style.value == CHOICE_lr_decay_style_inverse_square_root;
    if (past && o->lr_warmup_iters >= o->train_iters)                  /* a decay ends behind its warm-up */
        TRY(fairseq_give(o, OPTION_lr_decay_iters, "--warmup-updates", "%" PRId64, o->lr_warmup_iters + 1));
    return OK;
}

Status fairseq_derived(OptionWords *words, const Fairseq *f, const Options *so_far, int ranks)
{
    Options o;
    Status  status = OK;
    options_copy(&o, so_far);
    options_fill(&o, OPTION_ranks, ranks ? ranks : 1, "the launcher");
    if (o.command == FOR_EVAL) fairseq_eval_demand(&o, f);
    else                       status = derive(&o, f);
    if (status == OK) words_between(words, &o, so_far);
    options_close(&o);
    return status;
}
