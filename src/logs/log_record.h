#ifndef LOGS_LOG_RECORD_H
#define LOGS_LOG_RECORD_H
/* One record of a run's logs: the numbers of a training step or of an evaluation. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "compat/log_names.h"

/* Text of a number: 17 digits, which restore the same double; an integer; with 6 decimals; with 1; 6 digits;
 * the word true. */
typedef enum { LOG_EXACT, LOG_COUNT, LOG_MICRO, LOG_TENTH, LOG_SHORT, LOG_TRUE } LogForm;
enum { LOG_WITH_TIMERS = 1, LOG_WITH_LOSS_SCALE = 2, LOG_WITH_WORLD_SIZE = 4, LOG_WITH_PERPLEXITY = 8,
       LOG_WITH_MEMORY = 16, LOG_WITH_WANDB = 32, LOG_WITH_HISTORY = 64 };

typedef enum {
#define FACT(name, ...) FACT_##name,
#include "logs/facts.def"
    LOG_FACTS
} LogFact;
/* A row of logs/facts.def, which says what the fields are. */
typedef struct { LogForm form; const char *key, *tag; bool twin; int when; } LogFactRow;
extern const LogFactRow log_fact_rows[LOG_FACTS];
extern const char *const log_fact_names[LOG_FACTS];             /* "grad_norm" */

/* split: of an evaluation, "valid", "test" or the name of a set; NULL: a training step. time: seconds since
 * 1970. Its first value is the step. */
typedef struct {
    int64_t     step, samples;
    double      time;
    const char *split;
    int         count;
    struct { LogFact fact; double value; } value[LOG_FACTS];
} LogRecord;
LogRecord log_record(int64_t step, int64_t samples, const char *split);
void log_put(LogRecord *record, LogFact fact, double value);
/* By the name of the fact; NULL: the record does not have it. */
const double *log_value(const LogRecord *record, const char *fact);
/* A line of compat/log_names.c without its end, in `out`. Returns its bytes. */
int log_other_line(char *out, size_t size, LogLine line, const LogRecord *record, const char *text);

/* A value by the name that a writer gives it. */
typedef struct { const char *name; double value; } LogNamed;

/* A text that the model of the run has made: the continuation of prompt `number`, counted from 1. Texts are
 * UTF-8. */
typedef struct { int64_t step, number; double time; const char *prompt, *text; } LogSample;
LogSample log_sample(int64_t step, int64_t number, const char *prompt, const char *text);
/* A text as JSON, in quotes; the caller frees it. */
char *log_quoted(const char *text);
/* The value of an option as JSON, which the caller frees; key: its name as Megatron-LM's arguments have it,
 * with _ for -. */
enum { LOG_OPTION_NAME = 140 };
char *log_option(char key[LOG_OPTION_NAME], const char *name, const json_t *value);

/* The number as the form says, in `out`, which is returned; `other` is the text of what is not finite. */
const char *log_number(char out[40], LogForm form, double value, const char *other);
#endif
