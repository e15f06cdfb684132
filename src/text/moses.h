#ifndef TEXT_MOSES_H
#define TEXT_MOSES_H
/* Moses' detokenizer for English, as sacremoses has it: words with blanks between them become text. */
#include "text/lines.h"

/* Bytes that `out` and `scratch` need for a line of so many. */
static inline int64_t moses_room(int64_t bytes) { return 2 * bytes + 16; }
/* Writes the text of a line of words; -1: no memory. Returns its bytes. */
int64_t moses_detokenize(char *out, char *scratch, TextSpan line);
/* What the tutorial of Megatron-11b puts behind it for WikiText: @-@ and headings lose their blanks. In
 * place; returns the bytes that are left. */
int64_t moses_wikitext(char *text, int64_t bytes);
#endif
