#ifndef CORPUS_WIKI_WIKI_MARKS_H
#define CORPUS_WIKI_WIKI_MARKS_H
/* Finds where each opening mark of wikitext is closed, before anything is removed: one pass with a stack,
 * in linear time whatever the nesting.
 *
 * A comment and a tag of TAG_WHOLE or TAG_VERBATIM end at the first closing one; where another tag of the
 * same name opens before it, the first is unclosed. }} closes the innermost open {{, and |} at the start of
 * a line the innermost open {|; what opened later and is still open is then unclosed. ]] closes [[ only if
 * nothing else opened in between and no blank line is in between. */
#include <stdint.h>
#include "base/status.h"

typedef enum {
    MARK_LINK,                  /* [[ ]] */
    MARK_TEMPLATE,              /* {{ }} */
    MARK_PARAMETER,             /* {{{ }}} */
    MARK_TABLE,                 /* {| |} */
    MARK_HTML_TABLE,            /* <table> </table> */
    MARK_COMMENT,               /* <!-- --> */
    MARK_TAG,                   /* a tag that is removed with its content */
    MARK_KINDS
} MarkKind;

/* from: byte where it opens; end: the byte after its closing mark, negative where it is unclosed */
typedef struct { int64_t from, end; MarkKind kind; } Mark;
typedef struct { Mark *mark; int64_t count, capacity; } Marks;  /* in the order of `from`; begins as { 0 } */

/* Replaces the marks; fails only with NO_MEMORY. */
Status marks_find(Marks *marks, const char *text, int64_t bytes);
void   marks_free(Marks *marks);
#endif
