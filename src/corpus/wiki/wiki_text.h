#ifndef CORPUS_WIKI_WIKI_TEXT_H
#define CORPUS_WIKI_WIKI_TEXT_H
/* Wikitext to plain text, in linear time whatever its nesting; memory: at most 48 bytes for each mark that opens and
 * 96 for each template within a template, so at most 30 times the text.
 *
 * What goes: comments, tables, references, formulas, galleries, code, files and categories and links to other languages,
 * templates but for those of wiki_templates.def, magic words, tags. What stays: the words of links, the text of those
 * templates and of all other tags, nowiki as it is written. Entities are decoded, once more where they were escaped twice;
 * &nbsp; is a blank. <sup> of a number is ^6, or ¹²³ where it is one of these figures.
 * Numbers of {{formatnum:12345.6}} stay as written, since how they look is a matter of the wiki's language.
 * Sections of references, links and the like go with those below them. A heading stays, as a line of its own, where a
 * paragraph follows in its section. Lines of running text that follow each other are one paragraph; so is each item of a
 * list, without its marker. A paragraph ends with "\n". Without a letter or number it goes, and so do parentheses that are
 * left empty, or begin or end with a comma that is left, and doubled blanks.
 *
 * What opens and never closes loses little: [[ its brackets and what stands before "|"; {{, {|, a comment, a file and a tag
 * of the kind that goes with its content the rest of their line, {{ and {| also the lines behind it that begin with | ! or }.
 */
#include "corpus/read/buffer.h"

Status wiki_text(Buffer *out, const char *wikitext, int64_t bytes);     /* behind what is in out already */
#endif
