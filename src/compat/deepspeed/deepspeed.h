#ifndef COMPAT_DEEPSPEED_DEEPSPEED_H
#define COMPAT_DEEPSPEED_DEEPSPEED_H
/* What the files share that read DeepSpeed's JSON. Keys are the names of objects joined by dots,
 * "fp16.loss_scale"; an element of a list has its number. */
#include <jansson.h>
#include "compat/import.h"
#include "compat/dialects.h"

enum { DEEPSPEED_KEY = 128, DEEPSPEED_TEXT = 512, DEEPSPEED_WHY = 1000, DEEPSPEED_NOTES = 64 };

/* from: where the JSON is written, "run.sh:12" or "ds.json". note: keys of which the same is said, in one
 * line. */
typedef struct {
    Import     *m;
    Options    *o;
    const char *from;
    json_t     *whole;
    struct { const char *what; char keys[DEEPSPEED_WHY]; int count; } note[DEEPSPEED_NOTES];
    int         notes;
} DeepSpeed;

/* The words of the file of --json-config beside the options so far, since "auto" has their values and what
 * contradicts them is refused. What is not taken as it is given is a line in the log. BAD_OPTION where
 * something is refused, after a line for each. */
Status deepspeed_words(OptionWords *words, const Options *so_far, ConfigTexts *texts);

/* The value of a key; NULL: there is none, or null. */
const json_t *deepspeed_at(const DeepSpeed *d, const char *key);
bool deepspeed_is_auto(const json_t *value);
/* As it is typed after an option; "" of an object, a list, null and NULL. Returns out. */
const char *deepspeed_text(char *out, size_t size, const json_t *value);
/* "optimizer.params.lr of DeepSpeed's JSON " and why, as a line in the log that counts. */
__attribute__((format(printf, 3, 4)))
void deepspeed_refuse(DeepSpeed *d, const char *key, const char *format, ...);
/* Why a key is not taken as it is given, "ignored: it is the default"; all keys of one `what` make one line.
 */
void deepspeed_note(DeepSpeed *d, const char *key, const char *what);
/* What a key says of an option. What a person has said of it elsewhere has to be the same. */
void deepspeed_set(DeepSpeed *d, const char *key, OptionIndex option, Conversion convert, const char *value);
/* deepspeed_names.c: whether some name begins with this one and a dot; the name nearest to a key, "" where
 * none is near, returns out. */
bool deepspeed_group(const char *key);
const char *deepspeed_nearest(char *out, size_t size, const char *key);
/* deepspeed_file.c: the object of a text, which the caller owns; NULL, and why there is none. */
json_t *deepspeed_parse(char *why, size_t size, const char *text);
/* deepspeed_values.c: what several keys say together, after each was read by itself. */
void deepspeed_values(DeepSpeed *d);
/* Whether the learning rate of the JSON's scheduler replaces the optimizer's. */
bool deepspeed_scheduler_has_rate(const DeepSpeed *d);
#endif
