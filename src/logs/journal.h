#ifndef LOGS_JOURNAL_H
#define LOGS_JOURNAL_H
/* The journal of a run: journal.jsonl in the directory of --save, which every run writes without being asked
 * and `jotun report` reads. One JSON object for each event, appended and never rewritten, so that what
 * happened is there as it happened: steps that a resume takes again are there twice, and a line that a kill
 * cut stays, ended by the next start. Nobody asked for it, so that the run does not fail for it: a journal
 * that cannot be opened or written is one line in the log. */
#include <jansson.h>
#include "logs/log_file.h"

typedef struct { LogFile file; } Journal;            /* of zeros: closed, and journal_add does nothing */

void    journal_open (Journal *journal, const char *folder);
/* A line { "event": event, "time": seconds since 1970, facts... }; takes `facts`, an object. */
void    journal_add  (Journal *journal, const char *event, json_t *facts);
void    journal_close(Journal *journal);
/* A number, null where it is not finite. */
json_t *journal_number(double value);
/* A text of at most `most` bytes, cut at a character; what is no UTF-8 becomes U+FFFD. NULL: null. */
json_t *journal_text  (const char *text, size_t most);
#endif
