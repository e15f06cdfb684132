#ifndef CORPUS_WIKI_WIKI_TEXT_H
#define CORPUS_WIKI_WIKI_TEXT_H
/* Wikitext to plain text, in linear time whatever the nesting. Memory: at most 48 bytes for each opening
 * mark and 96 for each template within a template, so at most 30 times the text.
 *
 * Removed: comments, tables, references, formulas, galleries, code, files, categories, links to other
 * languages, magic words, tags, and templates except those of wiki_templates.def. Kept: the words of links,
 * the text of those templates and of all other tags; the content of nowiki is kept as written. Entities are
 * decoded, also those that were escaped twice; &nbsp; becomes a blank. <sup> of a number becomes ^6, or
 * ¹²³ for one of these figures. Numbers of {{formatnum:12345.6}} are kept as written, since their format
 * depends on the language of the wiki.
 *
 * Sections of references, links and the like are removed with their subsections. A heading is kept, as a
 * line of its own, if a paragraph follows in its section. Consecutive lines of running text are one
 * paragraph; each item of a list is one, without its marker. A paragraph ends with "\n". A paragraph
 * without a letter or number is removed, and so are parentheses that are left empty, commas that are left
 * at the beginning or end of parentheses, and repeated blanks.
 *
 * Markup that opens and never closes removes little: [[ only its brackets and what precedes "|"; {{, {|, a
 * comment, a file and a tag that is removed with its content the rest of their line, {{ and {| also the
 * following lines that begin with | ! or }. */
#include "base/buffer.h"

/* Appends the text to out. Fails only with NO_MEMORY; out is then as it was before. */
Status wiki_text(Buffer *out, const char *wikitext, int64_t bytes);
#endif
