/* Names of Argonne's fork of Megatron-DeepSpeed in Weights & Biases. Lines of other programs' logs:
 * Megatron-LM's training_log at version core 0.20 (--log-format megatron); fairseq's simple and json progress
 * bars (--log-format epochs, epochs-json), and its messages. */
#include "compat/log_names.h"
#include <stddef.h>

const LogKey compat_log_keys[] = {
    { "step",            "learning-rate/iteration" },
    { "lr",              "learning-rate/learning-rate" },
    { "step",            "lm-loss-training/iteration" },
    { "tokens",          "lm-loss-training/consumed_train_tokens" },
    { "loss",            "lm-loss-training/lm loss" },
    { "step",            "training/iteration" },
    { "grad_norm",       "training/grad-norm" },
    { "zeros",           "training/num-zeros" },
    { "params_norm",     "training/params-norm" },
    { "iteration_time",  "training/iteration_time" },
    { "samples",         "training/consumed_samples" },
    { "tokens",          "training/consumed_tokens" },
    { "step",            "loss/iteration" },
    { "loss",            "loss/lm loss" },
    { "mean_loss",       "loss/lm loss_avg" },
    { "any_scale",       "loss/loss_scale" },
    { "grad_norm",       "loss/grad_norm" },
    { "zeros",           "loss/num_zeros_in_grad" },
    { "params_norm",     "loss/params_norm" },
    { "iteration_time",  "throughput/iteration-time" },
    { "sample_speed",    "throughput/samples_per_sec" },
    { "mean_speed",      "throughput/tokens_per_sec" },
    { "rank_speed",      "throughput/tokens_per_gpu_per_sec" },
    { "tflops",          "throughput/tflops" },
    { "evaluation_loss", "%s/lm loss" },
    { "perplexity",      "%s/ppl_lm loss" },
    { "bits_per_byte",   "%s/bits_per_byte" },
    { NULL, NULL },
};

/* The text of an evaluation is the name of its set, that of epoch_end is "train". Messages have only a
 * text. */
const LogLineForm compat_line_forms[LOG_LINES] = {
    [LINE_megatron]            = { "%.0s %s: %s |", "", "" },
    [LINE_megatron_evaluation] = { "%.0s %s: %s |", "", " " },
    [LINE_epoch_step]          = { "%.0s%s=%s", ", ", "" },   /* within an epoch */
    [LINE_epoch_end]           = { "%.0s%s %s", " | ", "" },
    [LINE_epoch_evaluation]    = { "%.0s%s %s", " | ", "" },
    [LINE_epoch_step_json]     = { "%.0s, \"%s\": \"%s\"", "", "}" },
    [LINE_epoch_end_json]      = { ", \"%.90s_%s\": \"%s\"", "", "}" },   /* and of an evaluation */
    [LINE_overflow_message]    = { "", "", "" },
    [LINE_words_message]       = { "", "", "" },
    [LINE_eval_message]        = { "", "", "" },
};

#define ON(line)      (1u << LINE_##line)
#define ROUND(digits) ((digits) + 1)
#define PLAIN_ENDS    (ON(epoch_end) | ON(epoch_evaluation))
#define ENDS          (PLAIN_ENDS | ON(epoch_end_json))
#define EPOCHS        (ENDS | ON(epoch_step) | ON(epoch_step_json))
#define TEXTS         (ON(overflow_message) | ON(words_message) | ON(eval_message))

const LogLinePart compat_line_parts[] = {
    { ON(megatron), " [%s]", "exact_date", NULL, ALWAYS, 0 },
    { ON(megatron), " iteration %8.0f", "step", NULL, ALWAYS, 0 },
    { ON(megatron), "/%8.0f |", "steps", NULL, ALWAYS, 0 },
    { ON(megatron), "%12.0f", "samples", "consumed samples", ALWAYS, 0 },
    { ON(megatron), "%.1f", "iteration_ms", "elapsed time per iteration (ms)", ALWAYS, 0 },
    { ON(megatron), "%.1f", "rank_tflops", "throughput per GPU (TFLOP/s/GPU)", POSITIVE, 0 },
    { ON(megatron), "%.6E", "lr", "learning rate", ALWAYS, 0 },
    { ON(megatron), "%.6E", "decoupled_lr", "decoupled learning rate", KNOWN, 0 },
    { ON(megatron), "%5.0f", "batch", "global batch size", ALWAYS, 0 },
    { ON(megatron), "%.6E", "mean_loss", "lm loss", KNOWN, 0 },
    { ON(megatron), "%.6E", "mean_mtp_1", "mtp_1 loss", ALWAYS, 0 },
    { ON(megatron), "%.6E", "mean_mtp_2", "mtp_2 loss", ALWAYS, 0 },
    { ON(megatron), "%.6E", "mean_mtp_3", "mtp_3 loss", ALWAYS, 0 },
    { ON(megatron), "%.6E", "mean_mtp_4", "mtp_4 loss", ALWAYS, 0 },
    { ON(megatron), "%.6E", "balance_loss", "load_balancing_loss", ALWAYS, 0 },
    { ON(megatron), "%.6E", "z_loss", "z_loss", POSITIVE, 0 },
    { ON(megatron), "%.1f", "any_scale", "loss scale", ALWAYS, 0 },
    { ON(megatron), "%.3f", "grad_norm", "grad norm", ALWAYS, 0 },
    { ON(megatron), "%.0f", "zeros", "num zeros", ALWAYS, 0 },
    { ON(megatron), "%.3f", "params_norm", "params norm", ALWAYS, 0 },
    { ON(megatron), "%3.0f", "skipped_steps", "number of skipped iterations", ALWAYS, 0 },
    { ON(megatron), "%3.0f", "nan_steps", "number of nan iterations", ALWAYS, 0 },

    { ON(megatron_evaluation), " %s loss", "text", NULL, ALWAYS, 0 },
    { ON(megatron_evaluation), " at iteration %.0f |", "step", NULL, ALWAYS, 0 },
    { ON(megatron_evaluation), "%.6E", "evaluation_loss", "lm loss value", ALWAYS, 0 },
    { ON(megatron_evaluation), "%.6E", "perplexity", "lm loss PPL", ALWAYS, 0 },

    { EPOCHS | TEXTS, "%s | INFO | ", "date", NULL, ALWAYS, 0 },
    { ENDS, "%s | ", "text", NULL, ALWAYS, 0 },
    { ON(epoch_step), "train_inner | epoch %03.0f: ", "epoch", NULL, ALWAYS, 0 },
    { ON(epoch_step), " %5.0f", "epoch_step", NULL, ALWAYS, 0 },
    { ON(epoch_step), " / %.0f ", "epoch_steps", NULL, ALWAYS, 0 },
    { ON(epoch_step_json), "train_inner | {\"epoch\": %.0f", "epoch", NULL, ALWAYS, 0 },
    { ON(epoch_step_json), ", \"update\": %.15g", "epochs", NULL, ALWAYS, 0 },
    { PLAIN_ENDS, "epoch %03.0f | ", "epoch", NULL, ALWAYS, 0 },
    { ON(epoch_evaluation), "valid on '%s' subset | ", "text", NULL, ALWAYS, 0 },
    { ON(epoch_end_json), "{\"epoch\": %.0f", "epoch", NULL, ALWAYS, 0 },
    { EPOCHS, "%g", "loss_bits", "loss", ALWAYS, ROUND(3) },
    { EPOCHS, "%g", "perplexity", "ppl", ALWAYS, ROUND(2) },
    { EPOCHS, "%g", "mean_speed", "wps", ALWAYS, ROUND(1) },
    { EPOCHS, "%g", "update_speed", "ups", ALWAYS, ROUND(2) },
    { EPOCHS, "%g", "step_tokens", "wpb", ALWAYS, ROUND(1) },
    { EPOCHS, "%g", "step_samples", "bsz", ALWAYS, ROUND(1) },
    { EPOCHS, "%g", "updates", "num_updates", ALWAYS, 0 },
    { EPOCHS, "%g", "lr", "lr", ALWAYS, 0 },
    { EPOCHS, "%g", "grad_norm", "gnorm", ALWAYS, ROUND(3) },
    { EPOCHS, "%g", "clipped_percent", "clip", ALWAYS, ROUND(1) },
    { EPOCHS, "%g", "loss_scale", "loss_scale", ALWAYS, ROUND(4) },
    { EPOCHS, "%g", "seconds", "train_wall", ALWAYS, ROUND(0) },
    { EPOCHS, "%g", "run_seconds", "wall", ALWAYS, ROUND(0) },
    { EPOCHS, "%g", "lowest_bits", "best_loss", ALWAYS, ROUND(3) },

    { ON(overflow_message), "fairseq.trainer | %s", "text", NULL, ALWAYS, 0 },
    { ON(words_message), "fairseq_cli.preprocess | %s", "text", NULL, ALWAYS, 0 },
    { ON(eval_message), "fairseq_cli.eval_lm | %s", "text", NULL, ALWAYS, 0 },
    { .format = NULL },
};

const char compat_overwrite_word[] = "#fairseq:overwrite";
