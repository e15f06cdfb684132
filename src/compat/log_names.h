#ifndef COMPAT_LOG_NAMES_H
#define COMPAT_LOG_NAMES_H
/* Names in the logs of other programs, for scripts that read them: data for module logs. */

/* fact: its name in logs/facts.def; key: in Weights & Biases. Keys of an evaluation have a %s, which is its
 * set; those of a step have none. The last row has key NULL. */
typedef struct { const char *fact, *key; } LogKey;
extern const LogKey compat_log_keys[];

/* Who says a line of --log-format epochs. */
typedef enum { SAYS_STEP, SAYS_EPOCH, SAYS_OVERFLOW, SAYS_WORDS, SAYS_EVALUATION, SAYS } LineSpeaker;
extern const char *const compat_line_speakers[SAYS];

/* Behind a word that a dictionary has twice, where the second one replaces the first. */
extern const char compat_overwrite_word[];
#endif
