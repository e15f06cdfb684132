/* Lines of other programs' logs, against lines that are known to be their own. */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "base/testing.h"
#include "base/array.h"
#include "logs/log_record.h"

typedef struct { LogFact fact; double value; } Put;

static LogRecord record_of(const Put *put, int count)
{
    struct tm when = { .tm_year = 126, .tm_mon = 7, .tm_mday = 22, .tm_hour = 15, .tm_min = 22, .tm_sec = 22, .tm_isdst = -1 };
    LogRecord record = log_record(10, 15360, NULL);
    record.time = (double)mktime(&when) + 0.123456 + 1e-7;
    for (int i = 0; i < count; i++) log_put(&record, put[i].fact, put[i].value);
    return record;
}
#define RECORD(...) record_of((Put[]){ __VA_ARGS__ }, COUNT(((Put[]){ __VA_ARGS__ })))

static void line_is(LogLine line, LogRecord record, const char *text, const char *wanted)
{
    char out[1000];
    int n = log_other_line(out, sizeof out, line, &record, text);
    assert_string_equal(out, wanted);
    assert_int_equal(n, strlen(out));
}

static void megatron_lines(void **state)
{
    (void)state;
    line_is(LINE_megatron, RECORD({ FACT_steps, 500000 }, { FACT_samples, 15360 }, { FACT_iteration_ms, 1234.5 }, { FACT_rank_tflops, 412.3 },
        { FACT_lr, 6e-5 }, { FACT_batch, 1536 }, { FACT_mean_loss, 2.345678 }, { FACT_any_scale, 1 }, { FACT_grad_norm, 0.512 },
        { FACT_skipped_steps, 0 }, { FACT_nan_steps, 0 }), "",
        " [2026-08-22 15:22:22.123456] iteration       10/  500000 | consumed samples:        15360 | "
        "elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 6.000000E-05 | "
        "global batch size:  1536 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |");
    line_is(LINE_megatron, RECORD({ FACT_steps, 20 }, { FACT_iteration_ms, 0.25 }, { FACT_rank_tflops, 0 }, { FACT_lr, 0 },
        { FACT_decoupled_lr, 1e-3 }, { FACT_mean_loss, NAN }, { FACT_mean_mtp_1, 3 }, { FACT_balance_loss, 1.5 }, { FACT_z_loss, 0 },
        { FACT_any_scale, 65536 }, { FACT_grad_norm, -NAN }, { FACT_zeros, 12 }, { FACT_params_norm, 123.456 },
        { FACT_skipped_steps, 2 }, { FACT_nan_steps, 1 }), "",
        " [2026-08-22 15:22:22.123456] iteration       10/      20 | elapsed time per iteration (ms): 0.2 | "
        "learning rate: 0.000000E+00 | decoupled learning rate: 1.000000E-03 | mtp_1 loss: 3.000000E+00 | "
        "load_balancing_loss: 1.500000E+00 | loss scale: 65536.0 | grad norm: nan | num zeros: 12 | params norm: 123.456 | "
        "number of skipped iterations:   2 | number of nan iterations:   1 |");
    line_is(LINE_megatron_evaluation, RECORD({ FACT_evaluation_loss, 2.345678 }, { FACT_perplexity, exp(2.345678) }), "validation",
        " validation loss at iteration 10 | lm loss value: 2.345678E+00 | lm loss PPL: 1.044035E+01 | ");
}

#define EPOCH { FACT_epoch, 2 }, { FACT_epoch_step, 7 }, { FACT_epoch_steps, 120 }, { FACT_epochs, 1.058 }, { FACT_updates, 127 }
#define TRAINED { FACT_loss_bits, 9.87654 }, { FACT_perplexity, 940.126 }, { FACT_mean_speed, 12345.67 }, { FACT_update_speed, 1.234 }, \
    { FACT_step_tokens, 64 }, { FACT_step_samples, 2 }, { FACT_lr, 0.0005 }, { FACT_grad_norm, NAN }, { FACT_clipped_percent, 100 }, \
    { FACT_loss_scale, 128 }, { FACT_seconds, 3.5 }, { FACT_run_seconds, 4.4 }

static void epoch_lines(void **state)
{
    (void)state;
    line_is(LINE_epoch_step, RECORD(EPOCH, TRAINED), "", "2026-08-22 15:22:22 | INFO | train_inner | epoch 002:      7 / 120 loss=9.877, "
        "ppl=940.13, wps=12345.7, ups=1.23, wpb=64, bsz=2, num_updates=127, lr=0.0005, gnorm=nan, clip=100, loss_scale=128, "
        "train_wall=4, wall=4");
    line_is(LINE_epoch_step_json, RECORD(EPOCH, { FACT_loss_bits, 9.87654 }, { FACT_perplexity, 940.126 }), "",
        "2026-08-22 15:22:22 | INFO | train_inner | {\"epoch\": 2, \"update\": 1.058, \"loss\": \"9.877\", \"ppl\": \"940.13\", "
        "\"num_updates\": \"127\"}");
    line_is(LINE_epoch_end, RECORD(EPOCH, { FACT_loss_bits, 9.87654 }), "train",
        "2026-08-22 15:22:22 | INFO | train | epoch 002 | loss 9.877 | num_updates 127");
    line_is(LINE_epoch_end_json, RECORD(EPOCH, { FACT_loss_bits, 9.87654 }), "train",
        "2026-08-22 15:22:22 | INFO | train | {\"epoch\": 2, \"train_loss\": \"9.877\", \"train_num_updates\": \"127\"}");
    line_is(LINE_epoch_evaluation, RECORD(EPOCH, { FACT_loss_bits, 9.87654 }, { FACT_lowest_bits, 8 }), "valid",
        "2026-08-22 15:22:22 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 9.877 | num_updates 127 | best_loss 8");
    line_is(LINE_overflow_message, RECORD(EPOCH), "NOTE", "2026-08-22 15:22:22 | INFO | fairseq.trainer | NOTE");
}

/* What a row names is a fact; a record would silently lack another one. */
static bool is_fact(const char *name)
{
    for (int i = 0; i < LOG_FACTS; i++)
        if (!strcmp(log_fact_names[i], name)) return true;
    return !strcmp(name, "date") || !strcmp(name, "exact_date") || !strcmp(name, "text");
}

static void known_facts(void **state)
{
    (void)state;
    for (const LogLinePart *part = compat_line_parts; part->format; part++)
        if (!is_fact(part->fact)) fail_msg("compat/log_names.c: %s is no fact", part->fact);
    for (const LogKey *row = compat_log_keys; row->key; row++)
        if (!is_fact(row->fact)) fail_msg("compat/log_names.c: %s is no fact", row->fact);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(megatron_lines), cmocka_unit_test(epoch_lines),
                                        cmocka_unit_test(known_facts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
