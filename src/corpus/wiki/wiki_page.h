#ifndef CORPUS_WIKI_WIKI_PAGE_H
#define CORPUS_WIKI_WIKI_PAGE_H
/* Reads the pages of a MediaWiki XML dump (export format 0.3 to 0.11). The block must be whole pages; the
 * head before the first page and the end after the last are skipped.
 *
 *     const char *why;
 *     WikiPage    page;
 *     for (int64_t at = 0; wiki_page_next(block, bytes, &at, &page, &why); )
 *         if (why) ...                                  broken at byte page.at; the next page may be whole
 *         else if (page.ns == 0 && page.wikitext && !page.redirect) ...                 an article
 *
 * Entities are decoded inside the block, which changes. Of several revisions the last one counts; deleted
 * text is empty. Each byte is read once, those of a broken page twice; nothing is allocated. What MediaWiki
 * never writes (CDATA sections, comments, entities of its own) is refused as broken. */
#include <stdbool.h>
#include "corpus/read/json_line.h"

typedef struct {
    JsonText id, title, text;       /* inside the block */
    int64_t  at;                    /* byte of the block where it begins; of a broken page, of the fault */
    int      ns;                    /* namespace; 0: articles */
    bool     redirect, wikitext;    /* redirect: by its element or by the text's first word */
} WikiPage;

/* False: no page begins at or after *at. *why: NULL for a whole page, else a static message. *at moves past
 * the page. */
bool wiki_page_next(char *block, int64_t bytes, int64_t *at, WikiPage *page, const char **why);
#endif
