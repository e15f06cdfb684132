#ifndef CONF_CONF_H
#define CONF_CONF_H
/* Options: parse, derive, judge, show. Messages name the option as typed, its value, and what would work. */
#include <stdio.h>
#include "conf/options.h"

/* Defaults, environment (JOTUN_NUM_LAYERS=4), command line (--num-layers 4, --num-layers=4), preset. argv is
 * what follows the command's name. Wrong words are BAD_USAGE, wrong values BAD_OPTION. Words without a name
 * are refused where the command takes none. Another trainer's names count in the environment as well. */
Status options_parse (Options *o, int command, int argc, char **argv);
void   options_close (Options *o);
Status options_expect(const Options *o, int count, const char *what);   /* exactly so many words: "PREFIX" */

/* One value from somewhere; kept unless a stronger source has spoken. Names in `source` are copied. */
Status options_set   (Options *o, OptionIndex option, const char *value, OptionSource source);
/* What only the program around knows (ranks by the launcher, vocabulary by the tokenizer), before
 * options_derive: where nobody said it. from: "the launcher". */
void   options_fill  (Options *o, OptionIndex option, int64_t value, const char *from);
bool   options_said  (const Options *o, OptionIndex option);     /* by a person, preset or checkpoint */
bool   options_typed_by_person(const Options *o, OptionIndex option);

Status  options_derive(Options *o);                  /* callable again after more was said */
Status  options_judge (const Options *o);
int64_t options_data_parallel(const Options *o);     /* ranks / (tp pp cp), at least 1 */

void   options_show  (FILE *out, const Options *o);   /* each value of the command with its source */
/* The value as a person would type it; of a LIST the first word. */
const char *options_value_text (char *out, size_t size, const Options *o, OptionIndex option);
/* "default", "command line", "--model gpt2-124m", "derived from --hidden-size" */
const char *options_source_text(char *out, size_t size, const Options *o, OptionIndex option);

/* All options which hold a value, as one JSON object, "num-layers": 12. The text lives as long as the options. */
Status options_json     (Options *o, const char **json);
/* The FOR_CHECKPOINT_ARGS rows of such an object (path: where it was), weaker than anything a person said. */
Status options_from_json(Options *o, const char *json, const char *path);
/* A run that goes on with the checkpoint at `path`, after options_derive: BAD_OPTION where a FOR_SHAPE row
 * says another model; where a FOR_SAME_RUN row says another course, a line in the log. */
Status options_match_json(const Options *o, const char *json, const char *path);
#endif
