#ifndef CORPUS_PROSE_HTML_TO_TEXT_H
#define CORPUS_PROSE_HTML_TO_TEXT_H
/* HTML to plain text. A block element (p, div, h1, blockquote ...) is a paragraph, with a blank line around
 * it; an item of a list is a line that begins with "- ", a row of a table a line with its cells separated
 * by " | "; <br> ends a line, and the text of <pre> is kept as it is. White space elsewhere is one blank.
 * Character references are decoded. Removed: comments, title, scripts, styles, templates, pictures in SVG and
 * navigation (nav), with their content; of every other tag only the tag. What looks like no tag, as in
 * "a < b", is text. Text that surrounds the article, such as menus made of div, is not recognised. */
#include "base/buffer.h"

/* Appends UTF-8 text without a newline at its end. Linear time. Fails only with NO_MEMORY. */
Status html_to_text(Buffer *out, const char *html, int64_t bytes);
#endif
