/* The result of an evaluation in lines of --log-format epochs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "cli/eval_lines.h"
#include "conf/conf.h"
#include "logs/log_record.h"

/* 1234567 as 1,234,567 */
static const char *with_commas(char out[32], int64_t number)
{
    char digits[24];
    int  count = snprintf(digits, sizeof digits, "%lld", (long long)number), used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

static void say(const char *text)
{
    char line[1600];
    LogRecord now = log_record(0, 0, NULL);
    log_other_line(line, sizeof line, LINE_eval_message, &now, text);
    printf("%s\n", line);
}

/* "DIR/test" is "DIR test" there. */
void epoch_evaluated(const Options *o, int64_t parameters, int64_t examples, int64_t tokens,
                       int64_t original, double seconds, double loss)
{
    char text[1400], number[32], words[32], prefix[1100];
    double bits = loss / log(2);
    snprintf(prefix, sizeof prefix, "%.1000s", o->data_path.text[0]);
    char *slash = strrchr(prefix, '/');
    if (slash) *slash = ' ';
    snprintf(text, sizeof text, "num. model params: %s", with_commas(number, parameters));
    say(text);
    snprintf(text, sizeof text, "%s %s examples", prefix, with_commas(number, examples));
    say(text);
    snprintf(text, sizeof text, "Evaluated %s tokens in %.1fs (%.2f tokens/s)", with_commas(number, tokens),
             seconds, seconds > 0 ? (double)tokens / seconds : 0);
    say(text);
    snprintf(text, sizeof text, "Loss (base 2): %.4f, Perplexity: %.2f", bits, exp2(bits));
    say(text);
    with_commas(number, tokens);
    if (!original)
        log_line("perplexity %.10g; of words it is 2 ^ (log2(%.10g) x %s / words), with --original-text FILE "
                 "or --original-tokens N", exp2(bits), exp2(bits), number);
    else
        log_line("perplexity %.10g; renormalized: 2 ^ (log2(%.10g) x %s / %s) = %.10g", exp2(bits),
                 exp2(bits), number, with_commas(words, original),
                 exp2(bits * (double)tokens / (double)original));
}
