/* Any bytes as wikitext, or as pages of a dump whose text is wikitext: paragraphs that end, no blank lines, pages in order. */
#include <stdlib.h>
#include <string.h>
#include "corpus/wiki/wiki_page.h"
#include "corpus/wiki/wiki_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static Buffer out;

static void text_check(const char *wikitext, int64_t bytes)
{
    char *exact = malloc((size_t)bytes);        /* as long as it is, so that no byte behind it can be read */
    memcpy(exact, wikitext, (size_t)bytes);
    out.bytes = 0;
    if (wiki_text(&out, exact, bytes) != OK) abort();
    if (out.bytes && (out.text[0] == '\n' || out.text[out.bytes - 1] != '\n' || memmem(out.text, (size_t)out.bytes, "\n\n", 2))) abort();
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    WikiPage    page;
    const char *why;
    char *block = malloc(bytes);
    memcpy(block, data, bytes);
    for (int64_t at = 0, before = 0; wiki_page_next(block, (int64_t)bytes, &at, &page, &why); before = at) {
        if (at <= before || at > (int64_t)bytes || page.at < before || page.at > (int64_t)bytes) abort();
        if (!why) text_check(page.text.text, page.text.bytes);
    }
    free(block);
    text_check((const char *)data, (int64_t)bytes);
    return 0;
}
