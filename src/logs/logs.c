#include "logs/logs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Status events_open(Logs *l, const LogsConfig *config, double now, int64_t resumed)
{
    TRY(event_file_open(&l->events, config->tensorboard, now, resumed));
    event_file_options(&l->events, now, resumed, config->options);
    return OK;
}

Status logs_open(Logs *l, const LogsConfig *config, int64_t resumed)
{
    double now = log_record(0, 0, NULL).time;
    *l = (Logs){ .config = *config };
    Status status = config->metrics ? metrics_file_open(&l->metrics, "--metrics", config->metrics, resumed)
                                    : OK;
    if (status == OK && config->history) status = history_open(&l->history, config->history, resumed);
    if (status == OK && config->tensorboard) status = events_open(l, config, now, resumed);
    if (status == OK && config->wandb.project)
        status = wandb_run_open(&l->wandb, &config->wandb, now, resumed, config->options);
    return status == OK ? OK : logs_close(l, status);
}

/* The pattern with `split` in the place of its %s. */
static const char *name_of(char out[64], const char *pattern, const char *split)
{
    const char *gap = strstr(pattern, "%s");
    if (!gap) return pattern;
    snprintf(out, 64, "%.*s%s%s", (int)(gap - pattern), pattern, split, gap + 2);
    return out;
}

/* Megatron-LM's names of a record's values; *twins: how many of them have a twin. Returns how many there are.
 * The tag of a training step has no %s, so that an evaluation has another one. */
static int tagged_names(Logs *l, const LogRecord *r, int with, int *twins)
{
    const char *split = r->split && strcmp(r->split, "valid") == 0 ? "validation" : r->split;
    int count = *twins = 0;
    for (int i = 0; i < r->count; i++) {
        const LogFactRow *row = &log_fact_rows[r->value[i].fact];
        if (!*row->tag || (row->when & ~with)) continue;
        LogNamed named = { name_of(l->name[count], row->tag, split), r->value[i].value };
        l->named[count++] = named;
        if (row->twin) l->twin[(*twins)++] = named;
    }
    return count;
}

/* The same with other names. Keys of an evaluation have a %s, those of a step have none. */
static int other_names(Logs *l, const LogRecord *r)
{
    const char *split = r->split && strcmp(r->split, "valid") == 0 ? "val" : r->split;
    int count = 0;
    for (const LogKey *row = compat_log_keys; row->key; row++) {
        const double *value = log_value(r, row->fact);
        if (!value || !r->split != !strstr(row->key, "%s")) continue;
        CHECK(count < 2 * LOG_FACTS, "more keys than there is room for");
        l->named[count] = (LogNamed){ name_of(l->name[count], row->key, split), *value };
        count++;
    }
    return count;
}

void logs_add(Logs *l, const LogRecord *r)
{
    int twins;
    metrics_file_add(&l->metrics, r);
    history_add(&l->history, r);
    if (!r->split && r->step % l->config.interval != 0) return;
    if (l->events.file.open) {
        int count = tagged_names(l, r, l->config.with, &twins);
        event_file_add(&l->events, r->time, r->step, l->named, count, r->samples, l->twin, twins);
    }
    if (l->wandb.file.open) {
        int count = l->config.other_keys ? other_names(l, r)
                                      : tagged_names(l, r, l->config.with | LOG_WITH_WANDB, &twins);
        wandb_run_add(&l->wandb, r->time, r->step, l->named, count);
    }
}

void logs_add_sample(Logs *l, const LogSample *s)
{
    char name[40];
    size_t bytes = strlen(s->prompt) + strlen(s->text) + 1;
    char *whole = malloc(bytes);
    CHECK(whole, "no memory for a text of %zu bytes", bytes);
    snprintf(name, sizeof name, "sample %lld", (long long)s->number);
    snprintf(whole, bytes, "%s%s", s->prompt, s->text);
    metrics_file_add_sample(&l->metrics, s);
    if (l->events.file.open) event_file_add_text(&l->events, s->time, s->step, name, whole);
    wandb_run_add_text(&l->wandb, s->time, s->step, name, whole);
    free(whole);
}

void logs_commit(Logs *l) { wandb_run_commit(&l->wandb); }

Status logs_close(Logs *l, Status status)
{
    status = metrics_file_close(&l->metrics, status, l->config.saved);
    status = history_close(&l->history, status, l->config.saved);
    status = event_file_close(&l->events, status, l->config.saved);
    return wandb_run_close(&l->wandb, status, l->config.saved);
}
