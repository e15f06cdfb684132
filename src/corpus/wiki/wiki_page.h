#ifndef CORPUS_WIKI_WIKI_PAGE_H
#define CORPUS_WIKI_WIKI_PAGE_H
/* The pages of a piece of a MediaWiki dump (export format 0.3 to 0.11), which is whole pages: the head before the first
 * one and the end behind the last may be there, and are passed over.
 *
 *     const char *why;
 *     WikiPage    page;
 *     for (int64_t at = 0; wiki_page_next(block, bytes, &at, &page, &why); )
 *         if (why) ...                                 broken at byte page.at of the block; the next page may be whole
 *         else if (page.ns == 0 && page.wikitext && !page.redirect) ...                        an article
 *
 * Entities are decoded in the block, which changes. Of several revisions the last one counts; text that was deleted is
 * empty. A block is read once, a broken page of it twice; no memory is taken. What MediaWiki never writes, CDATA, comments and own entities, is refused as broken.                        */
#include <stdbool.h>
#include "corpus/read/json_line.h"

typedef struct {
    JsonText id, title, text;
    int64_t  at;                        /* byte of the block where it begins; where it is broken, of the fault */
    int      ns;                        /* 0: articles */
    bool     redirect, wikitext;        /* redirect: by its element or by the text's first word */
} WikiPage;

/* False: no page begins at *at or behind it. *why NULL: the page is whole. *at: behind the page */
bool wiki_page_next(char *block, int64_t bytes, int64_t *at, WikiPage *page, const char **why);
#endif
