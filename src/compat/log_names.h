#ifndef COMPAT_LOG_NAMES_H
#define COMPAT_LOG_NAMES_H
/* Names and lines in the logs of other programs, for scripts that read them: data for module logs. */

/* fact: its name in logs/facts.def; key: in Weights & Biases. Keys of an evaluation have a %s, which is its
 * set; those of a step have none. The last row has key NULL. */
typedef struct { const char *fact, *key; } LogKey;
extern const LogKey compat_log_keys[];

/* One kind of line. field: how a number with a label is written: printf's, of the line's text, the label and
 * the number; %.0s leaves one out. between: what separates two of them. */
typedef enum {
    LINE_megatron, LINE_megatron_evaluation, LINE_epoch_step,
    LINE_epoch_end, LINE_epoch_evaluation, LINE_epoch_step_json,
    LINE_epoch_end_json, LINE_overflow_message, LINE_words_message,
    LINE_eval_message,
    LOG_LINES
} LogLine;
typedef struct { const char *field, *between, *end; } LogLineForm;
extern const LogLineForm compat_line_forms[LOG_LINES];
/* Always; or only if the number is not NaN, or above 0. */
typedef enum { ALWAYS, KNOWN, POSITIVE } LogLineWhen;
/* A piece of the lines that have its bit 1 << LogLine, in the order of the rows. The last row has format
 * NULL. */
typedef struct {
    unsigned    lines;
    const char *format;         /* printf's, of the number */
    /* A name of logs/facts.def, or date, exact_date (of the record), text (of the line). What the record does
     * not have is left out. */
    const char *fact;
    const char *label;          /* NULL: without one, and without the form's `field` */
    LogLineWhen when;
    int         round;          /* digits to which the number is rounded as by Python's round, + 1; 0: not */
} LogLinePart;
extern const LogLinePart compat_line_parts[];

/* Behind a word that a dictionary has twice, where the second one replaces the first. */
extern const char compat_overwrite_word[];
#endif
