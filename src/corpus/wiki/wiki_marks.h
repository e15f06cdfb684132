#ifndef CORPUS_WIKI_WIKI_MARKS_H
#define CORPUS_WIKI_WIKI_MARKS_H
/* Where what opens in wikitext closes: one pass with a stack, linear whatever the nesting.
 *
 * A comment and a tag of TAG_WHOLE or TAG_VERBATIM end at the first end of theirs; where another of the same name opens
 * before it they are unclosed. }} closes the innermost {{ that is open, |} at the start of a line the innermost {|, and
 * what opened later and is still open is unclosed. ]] closes [[ only where nothing else opened between and no blank line
 * lies between.                                                                                                       */
#include <stdint.h>
#include "base/status.h"

typedef enum { MARK_LINK, MARK_TEMPLATE, MARK_PARAMETER, MARK_TABLE, MARK_HTML_TABLE, MARK_COMMENT, MARK_TAG, MARK_KINDS } MarkKind;

/* from: where it opens; behind: behind its end, negative where it has none */
typedef struct { int64_t from, behind; MarkKind kind; } Mark;
typedef struct { Mark *mark; int64_t count, room; } Marks;           /* in the order of `from` */

Status marks_find(Marks *marks, const char *text, int64_t bytes);    /* marks: empty, or of a text before */
void   marks_free(Marks *marks);
#endif
