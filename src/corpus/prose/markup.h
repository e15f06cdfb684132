#ifndef CORPUS_PROSE_MARKUP_H
#define CORPUS_PROSE_MARKUP_H
/* The markup of a document, which decides what becomes of its lines. */

typedef enum {
    MARKUP_NONE,        /* the text as it is: of a JSON line, a line of a file, source code */
    MARKUP_WIKI,        /* MediaWiki: removed (corpus/wiki/wiki_text.h) */
    MARKUP_HTML,        /* removed (corpus/prose/html_to_text.h) */
    /* Kept, while wrapped paragraphs are joined (corpus/prose/reflow.h): */
    MARKUP_TEXT, MARKUP_MARKDOWN, MARKUP_REST, MARKUP_ORG, MARKUP_TEX
} Markup;
#endif
