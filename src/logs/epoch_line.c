/* Lines of --log-format epochs. */
#include "logs/epoch_line.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/message.h"

/* "2021-01-28 12:00:00 | INFO | train_inner | ", as Python's logging writes it */
static void line_begin(char *out, size_t size, double now, const char *logger)
{
    time_t whole = (time_t)floor(now);
    struct tm when;
    char date[32];
    localtime_r(&whole, &when);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
    snprintf(out, size, "%s | INFO | %s | ", date, logger);
}

/* How a field is written: k=v, k=v; or k v | k v; or as JSON, where values are texts. */
typedef enum { FIELDS_COMMAS, FIELDS_PIPES, FIELDS_JSON } FieldStyle;
typedef struct { char *out; size_t size; FieldStyle style; const char *prefix; int count; } Fields;

/* Rounded to so many digits behind the point, as Python's round; -1: not rounded. */
static void put(Fields *f, const char *name, double value, int digits)
{
    static const char *const between[] = { ", ", " | ", ", " };
    double unit = digits < 0 ? 1 : pow(10, digits);
    if (digits >= 0 && isfinite(value)) value = nearbyint(value * unit) / unit;
    char text[160];
    switch (f->style) {
    case FIELDS_COMMAS: snprintf(text, sizeof text, "%s%s=%g", f->prefix, name, value); break;
    case FIELDS_PIPES:  snprintf(text, sizeof text, "%s%s %g", f->prefix, name, value); break;
    case FIELDS_JSON:   snprintf(text, sizeof text, "\"%s%s\": \"%g\"", f->prefix, name, value); break;
    }
    message_add(f->out, f->size, "%s%s", f->count++ || f->style == FIELDS_JSON ? between[f->style] : "",
                text);
}

/* The loss in bits, and 2 to the power of it. */
static void put_loss(Fields *f, double nats)
{
    double bits = (isnan(nats) ? NAN : nats) / 0.693147180559945309417;
    put(f, "loss", bits, 3);
    put(f, "ppl", exp2(bits), 2);
}

static void put_training(Fields *f, const EpochLine *x)
{
    double steps = (double)x->steps, seconds = x->seconds > 0 ? x->seconds : 1e-9;
    double each = x->steps > 0 ? steps : 1;
    put_loss(f, x->loss);
    put(f, "wps", (double)x->tokens / seconds, 1);
    put(f, "ups", steps / seconds, 2);
    put(f, "wpb", (double)x->tokens / each, 1);
    put(f, "bsz", (double)x->samples / each, 1);
    put(f, "num_updates", (double)x->updates, -1);
    put(f, "lr", x->lr, -1);
    put(f, "gnorm", isnan(x->norm) ? NAN : x->norm, 3);
    if (!(x->clip < 0)) put(f, "clip", isnan(x->clip) ? NAN : x->clip, 1);
    if (x->loss_scale > 0) put(f, "loss_scale", x->loss_scale, 4);
    put(f, "train_wall", x->seconds, 0);
    put(f, "wall", x->wall, 0);
}

int epoch_line(char *out, size_t size, const EpochLine *x)
{
    line_begin(out, size, x->now, compat_line_speakers[SAYS_STEP]);
    Fields f = { out, size, x->json ? FIELDS_JSON : FIELDS_COMMAS, "", 0 };
    double update = (double)(x->epoch - 1) + (double)x->at / (double)x->size;
    if (x->json)
        message_add(out, size, "{\"epoch\": %lld, \"update\": %.15g", (long long)x->epoch,
                    nearbyint(update * 1000) / 1000);
    else
        message_add(out, size, "epoch %03lld:  %5lld / %lld ", (long long)x->epoch, (long long)x->at,
                    (long long)x->size);
    put_training(&f, x);
    if (x->json) message_add(out, size, "}");
    return (int)strlen(out);
}

int epoch_end_line(char *out, size_t size, const EpochLine *x)
{
    line_begin(out, size, x->now, compat_line_speakers[SAYS_EPOCH]);
    Fields f = { out, size, x->json ? FIELDS_JSON : FIELDS_PIPES, x->json ? "train_" : "", 0 };
    message_add(out, size, x->json ? "{\"epoch\": %lld" : "epoch %03lld | ", (long long)x->epoch);
    put_training(&f, x);
    if (x->json) message_add(out, size, "}");
    return (int)strlen(out);
}

int epoch_evaluation_line(char *out, size_t size, const EpochLine *x, const char *set, double best)
{
    char prefix[100] = "";
    line_begin(out, size, x->now, set);
    if (x->json) snprintf(prefix, sizeof prefix, "%.90s_", set);
    Fields f = { out, size, x->json ? FIELDS_JSON : FIELDS_PIPES, prefix, 0 };
    if (x->json) message_add(out, size, "{\"epoch\": %lld", (long long)x->epoch);
    else         message_add(out, size, "epoch %03lld | valid on '%s' subset | ", (long long)x->epoch, set);
    put_loss(&f, x->loss);
    put(&f, "num_updates", (double)x->updates, -1);
    if (best > 0) put(&f, "best_loss", best / 0.693147180559945309417, 3);
    if (x->json) message_add(out, size, "}");
    return (int)strlen(out);
}

int epoch_message(char *out, size_t size, double now, LineSpeaker speaker, const char *text)
{
    line_begin(out, size, now, compat_line_speakers[speaker]);
    message_add(out, size, "%s", text);
    return (int)strlen(out);
}
