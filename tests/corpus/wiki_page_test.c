/* Pages of a dump: every field, entities, the byte at which a page is broken, and the page after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/wiki/wiki_page.h"
#include <cmocka.h>

static char    block[1 << 16];
static int64_t bytes, at;
static const char *why;
static WikiPage page;

static void block_set(const char *text)
{
    bytes = (int64_t)strlen(text);
    memcpy(block, text, (size_t)bytes);
    at = 0;
}

static void field_is(JsonText field, const char *wanted)
{
    assert_int_equal(field.bytes, strlen(wanted));
    assert_memory_equal(field.text, wanted, field.bytes);
}

static void a_page_of_every_field(void **state)
{
    (void)state;
    block_set("<mediawiki version=\"0.11\">\n <siteinfo><sitename>W</sitename><namespaces><namespace key=\"0\" /></namespaces></siteinfo>\n"
              "<page>\n<title>A &amp; B</title>\n<ns>0</ns>\n<id>12</id>\n<revision><id>99</id><contributor><username>x</username><id>7</id>"
              "</contributor><minor /><model>wikitext</model><format>text/x-wiki</format>"
              "<text bytes=\"3\" xml:space=\"preserve\">&lt;b&gt; &quot;&apos;&#229;&#xE4;&#x1F600;&amp;amp;</text><sha1 /></revision>\n</page>\n</mediawiki>\n");
    assert_true(wiki_page_next(block, bytes, &at, &page, &why));
    assert_null(why);
    field_is(page.title, "A & B");
    field_is(page.id, "12");
    field_is(page.text, "<b> \"'åä😀&amp;");
    assert_int_equal(page.ns, 0);
    assert_true(page.wikitext && !page.redirect);
    assert_false(wiki_page_next(block, bytes, &at, &page, &why));
}

static void kinds_of_pages(void **state)
{
    (void)state;
    block_set("<page><title>a</title><ns>-1</ns><redirect title=\"b\" /><revision><text /></revision></page>"
              "<page><title>b</title><ns>10</ns><revision><model>Scribunto</model><text>x</text></revision></page>"
              "<page><title>c</title><ns>0</ns><revision><text>old</text></revision><revision><text>#Omdirigering [[d]]</text></revision></page>"
              "<page><title>d</title><revision><text>#ПЕРЕНАПРАВЛЕНИЕ [[d]]</text></revision></page>"
              "<page><title>e</title><revision><text>#redirected</text></revision></page>"
              "<page><title>f</title><upload><text>no</text></upload></page>");
    static const struct { int ns; bool redirect, wikitext; const char *text; } wanted[] = {
        { -1, true, true, "" }, { 10, false, false, "x" }, { 0, true, true, "#Omdirigering [[d]]" },
        { 0, true, true, "#ПЕРЕНАПРАВЛЕНИЕ [[d]]" }, { 0, false, true, "#redirected" }, { 0, false, true, "" } };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_true(wiki_page_next(block, bytes, &at, &page, &why));
        assert_null(why);
        assert_int_equal(page.ns, wanted[i].ns);
        assert_int_equal(page.redirect, wanted[i].redirect);
        assert_int_equal(page.wikitext, wanted[i].wikitext);
        field_is(page.text, wanted[i].text);
    }
    assert_false(wiki_page_next(block, bytes, &at, &page, &why));
}

/* `^` precedes the byte at fault; a whole page follows each. */
static void broken_is_named(void **state)
{
    (void)state;
    static const struct { const char *page, *words; } rows[] = {
        { "<page><title>a</title><revision><text>x ^& y</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^&nbsp; y</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^&#xD800; y</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^&#0;</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^&#;</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^&#1114112;</text></revision></page>", "no entity" },
        { "<page><title>a</title><revision><text>x ^< y</text></revision></page>", "begins no element" },
        { "<page><title>a</title><revision><text>x^<!-- c --></text></revision></page>", "begins no element" },
        { "<page><title>a</title><revision><text>x^</revision></page>", "innermost" },
        { "<page><title>a</title><revision><text>x^</page>", "innermost" },
        { "<page><title>a</title><ns>^zero</ns></page>", "no number" },
        { "<page><title>a</title><ns>^</ns></page>", "no number" },
        { "<page><title>a</title><ns>^99999999999999999999</ns></page>", "no number" },
        { "^<page><ns>0</ns></page>", "without <title>" },
        { "<page><title>a</title>", "the end of the one before" },
        { "<page><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>^<a></page>", "deeper" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512], *mark;
        snprintf(text, sizeof text, "\n%s\n<page><title>b</title></page>", rows[i].page);
        int64_t fault = (mark = strchr(text, '^')) ? mark - text : (int64_t)strlen(rows[i].page) + 2;
        if (mark) memmove(mark, mark + 1, strlen(mark));
        block_set(text);
        assert_true(wiki_page_next(block, bytes, &at, &page, &why));
        assert_non_null(why);
        assert_non_null(strstr(why, rows[i].words));
        assert_int_equal(page.at, fault);
        assert_true(wiki_page_next(block, bytes, &at, &page, &why));
        assert_null(why);
        field_is(page.title, "b");
    }
}

/* Cut anywhere: one broken page, or none that began, and nothing is read after the end. */
static void cut_anywhere(void **state)
{
    (void)state;
    static const char whole[] = "<page><title>a</title><ns>0</ns><id>1</id><revision><text bytes=\"9\">x &amp; y</text></revision></page>";
    for (size_t cut = 0; cut < sizeof whole - 1; cut++) {
        char *exact = malloc(cut + 1);
        memcpy(exact, whole, cut);
        at = 0;
        bool found = wiki_page_next(exact, (int64_t)cut, &at, &page, &why);
        assert_int_equal(found, cut >= 6);
        if (found) assert_non_null(why);
        if (found) assert_false(wiki_page_next(exact, (int64_t)cut, &at, &page, &why));
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_every_field), cmocka_unit_test(kinds_of_pages),
        cmocka_unit_test(broken_is_named), cmocka_unit_test(cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
