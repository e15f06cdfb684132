#ifndef CORPUS_PROSE_REFLOW_H
#define CORPUS_PROSE_REFLOW_H
/* Joins the lines of paragraphs that an editor, a typist or a mail program has wrapped at a column, and
 * recognises files of such lines. Markup is kept.
 *
 * Two lines are joined where the break between them is the wrap and means nothing: neither is blank, the
 * second is not indented further, and its first word would not have fitted on the first line. The column is
 * the 95th percentile of the lengths of lines within paragraphs; a word counts as fitting if it ends before
 * four fifths of it. A line that is shorter is joined only if it ends in the middle of a sentence and the
 * next one begins with a small letter. So lists, verse, addresses and code, whose lines end early, stay as
 * they are, and so does all of a file whose lines are not wrapped. Where most lines within paragraphs begin
 * with a capital, the file is verse, and no such line is joined to the one before it.
 *
 * Always kept: tables (a tab or three blanks within a line, or | at its beginning), quotations (>), lines
 * without a letter or digit, and of
 *     Markdown   fenced and indented code, headings, front matter, HTML, link definitions, hard line breaks
 *     reST       literal blocks, directives and comments with what is indented below them, line blocks
 *     Org        blocks (#+BEGIN_ to #+END_), headings, keywords, properties
 *     TeX        environments of code, tables, formulas and verse, comments, lines that begin or end with a
 *                command that stands alone
 * An item of a list begins a line, and its hanging lines are joined to it.
 *
 * Line ends become \n, blanks before them are removed, and of consecutive blank lines two are kept. */
#include "base/buffer.h"
#include "corpus/prose/markup.h"

/* Appends UTF-8 text. Linear time; memory: 2 KiB. Fails only with NO_MEMORY. */
Status reflow(Buffer *out, const char *text, int64_t bytes, Markup markup);

/* What the lines of a plain text are, judged by its beginning. */
typedef enum {
    LINES_UNSURE,       /* too few lines to tell */
    LINES_DOCUMENTS,    /* one document on each line, or other short lines that belong to nothing */
    LINES_TEXT          /* one text: its paragraphs are wrapped, or separated by blank lines */
} LinesLook;
LinesLook lines_look(const char *text, int64_t bytes);
#endif
