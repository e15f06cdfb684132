/* Names of Argonne's fork of Megatron-DeepSpeed in Weights & Biases, and the lines of log_lines.def. */
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

const LogLineForm compat_line_forms[LOG_LINES] = {
#define LINE(line, field, between, end) { field, between, end },
#include "compat/log_lines.def"
};

#define ON(line) (1u << LINE_##line)
const LogLinePart compat_line_parts[] = {
#define PART(lines, format, fact)               { lines, NULL, format, -1, #fact, ALWAYS },
#define FIELD(lines, label, format, fact, when) { lines, label, format, -1, #fact, when },
#define ROUNDED(lines, label, digits, fact)     { lines, label, "%g", digits, #fact, ALWAYS },
#include "compat/log_lines.def"
    { .format = NULL },
};

const char compat_overwrite_word[] = "#fairseq:overwrite";
