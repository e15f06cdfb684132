#ifndef COMPAT_LOG_NAMES_H
#define COMPAT_LOG_NAMES_H
/* Names and lines in the logs of other programs, for scripts that read them: data for module logs. */

/* fact: its name in logs/facts.def; key: in Weights & Biases. Keys of an evaluation have a %s, which is its
 * set; those of a step have none. The last row has key NULL. */
typedef struct { const char *fact, *key; } LogKey;
extern const LogKey compat_log_keys[];

/* The lines of compat/log_lines.def, which says what the fields are. */
typedef enum {
#define LINE(line, ...) LINE_##line,
#include "compat/log_lines.def"
    LOG_LINES
} LogLine;
typedef struct { const char *field, *between, *end; } LogLineForm;
extern const LogLineForm compat_line_forms[LOG_LINES];
typedef enum { ALWAYS, KNOWN, POSITIVE } LogLineWhen;
/* label: NULL for a PART. The last row has format NULL. */
typedef struct {
    unsigned    lines;
    const char *label, *format;
    int         digits;
    const char *fact;
    LogLineWhen when;
} LogLinePart;
extern const LogLinePart compat_line_parts[];

/* Behind a word that a dictionary has twice, where the second one replaces the first. */
extern const char compat_overwrite_word[];
#endif
