#ifndef COMPAT_TRANSLATE_H
#define COMPAT_TRANSLATE_H
/* Names of other programs as words of jotun: each row of dialects.def says what becomes of a name. */
#include "compat/dialects.h"
#include "conf/words.h"

/* What the row makes of a word, whose name and value it has: words of options, with a note or refusal where
 * the row says so, and demands. */
void translate_row  (OptionWords *out, const Dialect *row, const OptionWord *word, CommandSet command);
/* All words in their order. Names of options of the command, positional words and unknown names stay as they
 * are. */
void translate_words(OptionWords *out, const OptionWords *in, CommandSet command, unsigned understood);
/* One name with its value, by this row; NULL where a flag has none. The options have the result; notes: see
 * options_take. */
Status translate_name(Options *o, const Dialect *row, const char *value, OptionSource source,
                      TextList *notes);
#endif
