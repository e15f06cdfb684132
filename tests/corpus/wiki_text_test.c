/* The dump of tests/data/wiki gives exactly the text beside it; small pieces of markup give the expected text; and
 * no nesting takes more than linear time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "corpus/wiki/wiki_page.h"
#include "corpus/wiki/wiki_text.h"
#include <cmocka.h>

static Buffer out;

/* In memory of exactly its size, so that a sanitizer detects a read after the end. */
static Status cleaned(const char *text, size_t bytes)
{
    char *exact = malloc(bytes + (bytes == 0));
    memcpy(exact, text, bytes);
    out.bytes = 0;
    Status status = wiki_text(&out, exact, (int64_t)bytes);
    free(exact);
    return status;
}

static void dump_is_as_expected(void **state)
{
    (void)state;
    FileMap dump, wanted;
    Buffer  all = { 0 };
    WikiPage page;
    const char *why;
    int broken = 0;
    assert_int_equal(file_map(&dump, TESTS_DIR "/data/wiki/constructs.xml"), OK);
    assert_int_equal(file_map(&wanted, TESTS_DIR "/data/wiki/constructs.txt"), OK);
    char *block = malloc(dump.size);
    memcpy(block, dump.data, dump.size);
    for (int64_t at = 0; wiki_page_next(block, (int64_t)dump.size, &at, &page, &why); ) {
        broken += why != NULL;
        if (why || page.ns || !page.wikitext || page.redirect) continue;
        char head[128];
        snprintf(head, sizeof head, "# %.*s: %.*s\n", (int)page.id.bytes, page.id.text, (int)page.title.bytes, page.title.text);
        assert_int_equal(buffer_add(&all, head, (int64_t)strlen(head)), OK);
        assert_int_equal(wiki_text(&all, page.text.text, page.text.bytes), OK);
    }
    assert_int_equal(broken, 1);
    assert_int_equal(buffer_add(&all, "", 1), OK);
    char *text = calloc(1, wanted.size + 1);
    memcpy(text, wanted.data, wanted.size);
    assert_string_equal(all.text, text);
    free(text);
    free(block);
    buffer_free(&all);
    file_unmap(&dump);
    file_unmap(&wanted);
}

static void small_pieces(void **state)
{
    (void)state;
    static const struct { const char *wiki, *text; } rows[] = {
        { "", "" }, { "\n\n \n", "" }, { "a", "a\n" }, { "a\nb\n\nc", "a b\nc\n" }, { "a\n* b\nc", "a\nb\nc\n" },
        { "{{nowrap|a}}", "a\n" }, { "{{nowrap}}a", "a\n" }, { "{{nowrap|}}a", "a\n" }, { "{{Nowrap\n | 1 = a = b }}", "a = b\n" },
        { "{{lang|fr|a|italic=no}}", "a\n" }, { "{{lang|italic=no|fr|a}}", "a\n" }, { "{{lang|fr|{{lang|de|a|b}}|c}}", "a\n" },
        { "{{convert|1|x|2|x|3|m|ft|abbr=on}}", "1 x 2 x 3 m\n" }, { "{{transl|a}}{{transl|ar|b|c}}", "c\n" },
        { "{{{{{1}}}|a}}b", "b\n" }, { "a}}b]]c", "abc\n" }, { "{{a{{b}}c}}d", "d\n" }, { "{a} [b]", "{a} [b]\n" },
        { "{{formatnum: 12 345,6|R}}", "12 345,6\n" }, { "{{höhe|12|DE}}", "12 m\n" }, { "{{as_of|2010}}, a", "As of 2010, a\n" },
        { "a{{!}}b", "a|b\n" }, { "a{{snd}}b", "a – b\n" }, { "a {{e|b}}", "a\n" },
        { "[[a|b]]c", "bc\n" }, { "[[a|b|c]]", "b|c\n" }, { "[[ a ]]", "a\n" }, { "[[:en:a|b]]", "b\n" }, { "[[en:a|b]]c", "c\n" },
        { "[[File:a|[[b]] [http://c d]]]e", "e\n" }, { "[[Fichier : a]]b", "b\n" }, { "[[ФАЙЛ:а]]b", "b\n" }, { "[[W:a|b]]", "b\n" },
        { "[mailto:a@b c] [ftp://a]", "c\n" }, { "[http://a b\nc] d", "b c] d\n" }, { "[[a\n\nb]]", "a\nb\n" },
        { "<ref>a<ref>b</ref>c", "" }, { "a<REF>b</Ref >c", "ac\n" }, { "a<ref/>b", "ab\n" }, { "a <references/>", "a\n" },
        { "<!-- a -->b<!----> c", "b c\n" }, { "<!--> a -->b", "b\n" }, { "<nowiki>* '' a</nowiki>", "'' a\n" },
        { "a<br>b<BR/>c", "a\nb\nc\n" }, { "1<sup>2</sup> 1<sup>12</sup> 1<sup>a</sup> 1<sup>−3</sup>", "1² 1^12 1a 1^−3\n" },
        { "{|\n|a\n|}b", "b\n" }, { "{|\n{|\n|}\n|a\n|}b", "b\n" }, { "a {| b", "a {| b\n" }, { "::{|\n|a\n|}\nb", "b\n" },
        { "{{a|\n{|\n|}}\nb", "b\n" }, { "{|\n{{a\n|}}\n|}b", "b\n" }, { "{|\n{{a\n|}b", "b\n" },
        { "== a ==\nb", "a\nb\n" }, { "== a ==", "" }, { "== a ==\n=== b ===\n== c ==\nd", "c\nd\n" }, { "=a=\n==b==\nc\n==d==\ne", "a\nb\nc\nd\ne\n" },
        { "== NOTER: ==\na\n=== b ===\nc\n= d =\ne", "d\ne\n" }, { "= a =\n== Källor ==\nb\n== c ==\nd", "a\nc\nd\n" }, { "==_Примечания ==\na", "" },
        { "a (b) ( c ) (,d;) f() (–) ((,)) e", "a (b) (c) (d) f() e\n" }, { "a , b . c ; d ... .e ,5", "a, b. c ; d ... .e ,5\n" }, { "a, , b, , , c ,.", "a, b, c.\n" }, { "( )", "" }, { "a\n)(\nb", "a\nb\n" },
        { "&nbsp;a&nbsp; &amp;lt; &amp;amp;lt; &lt;b&gt; &x; &#0; &", "a < &lt; <b> &x; &#0; &\n" }, { "&AMP", "&AMP\n" },
        { "''a'' '''b''' ''''c'''' ''''''d", "a b 'c' 'd\n" }, { "__a__ __ABC__ _ __", "__a__ _ __\n" }, { "|a|b", "|a|b\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(cleaned(rows[i].wiki, strlen(rows[i].wiki)), OK);
        assert_int_equal(buffer_add(&out, "", 1), OK);
        if (strcmp(out.text, rows[i].text)) print_message("of: %s\n", rows[i].wiki);
        assert_string_equal(out.text, rows[i].text);
    }
}

/* Appended to what is there; NULs and invalid UTF-8 are text. */
static void any_bytes(void **state)
{
    (void)state;
    static const char bytes[] = "a\0b \xff\xc3[[\xe2\x82|\xf0]]\xc3";
    assert_int_equal(cleaned(bytes, sizeof bytes - 1), OK);
    assert_int_equal(wiki_text(&out, "''c''", 5), OK);
    assert_int_equal(out.bytes, 11);
    assert_memory_equal(out.text, "a\0b \xff\xc3\xf0\xc3\nc\n", 11);
}

/* ---- time ---- */

static double seconds(const char *piece, const char *end, int64_t times)
{
    struct timespec a, b;
    size_t n = strlen(piece), m = strlen(end), bytes = (n + m) * (size_t)times;
    char *text = malloc(bytes);
    for (int64_t i = 0; i < times; i++) memcpy(text + (size_t)i * n, piece, n);
    for (int64_t i = 0; i < times; i++) memcpy(text + n * (size_t)times + (size_t)i * m, end, m);
    out.bytes = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    assert_int_equal(wiki_text(&out, text, (int64_t)bytes), OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    free(text);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

typedef struct { const char *piece, *end; } Nest;

/* Below eight times for four times the text, where it can be measured at all */
/* The best of three, since the pages of memory that a machine under load gives take their time */
static void linear(Nest nest, int64_t times)
{
    double small = 0, large = 1;
    for (int i = 0; i < 3 && large > 8 * small; i++) {
        small = seconds(nest.piece, nest.end, times);
        large = seconds(nest.piece, nest.end, 4 * times);
        if (small < 0.01) small = 0.01;
    }
    if (large > 8 * small) print_message("%s ... %s: %g and %g s\n", nest.piece, nest.end, small, large);
    assert_true(large <= 8 * small);
}

static void hostile_nesting_is_linear(void **state)
{
    (void)state;
    static const Nest rows[] = {
        { "{{", "" }, { "{{", "}}" }, { "{{{", "}}}" }, { "{", "}" }, { "{{\n", "" }, { "{{|", "" }, { "}}", "" }, { "[[", "" }, { "[[", "]]" }, { "[[a|", "]]" },
        { "[[Fil:", "" }, { "[[Fil:a|", "]]" }, { "[", "]" }, { "[http://", "]" }, { "[http://a ", "]" }, { "]]", "" }, { "\n{|", "" }, { "\n{|", "\n|}" }, { "\n|}", "" },
        { "\n{|\n|", "" }, { "\n{|{{[[", "" }, { "\n{|{{[[", "]]}}\n|}" }, { "[[{{", "]]" }, { "{{[[", "}}" }, { "<ref>", "" }, { "<ref>", "</ref>" }, { "<ref", "" },
        { "<ref <math ", "" }, { "<ref><math><nowiki>", "" }, { "<ref/><math>", "</math>" }, { "<!--", "" }, { "<!--", "-->" }, { "<!--<ref>{{[[\n{|", "" },
        { "<table>", "" }, { "<table>", "</table>" }, { "<table>{{", "</table>" }, { "<", "" }, { "<b", "" }, { "<div ", "" }, { "</ref>", "" }, { "<nowiki>", "" },
        { "<nowiki>", "</nowiki>" }, { "{{nowrap|", "}}" }, { "{{nowrap|a", "b}}" }, { "{{nowrap|1=", "}}" }, { "{{lang|a|", "}}" }, { "{{lang|", "|a}}" },
        { "{{transl|a|", "}}" }, { "{{transl|", "|b}}" }, { "{{convert|1|", "|-}}" }, { "{{convert|1|-|", "" }, { "{{nowrap|[[a|", "]]}}" }, { "{{nowrap|<ref>", "}}" },
        { "{{formatnum:", "}}" }, { "'", "" }, { "''", "a" }, { "_", "" }, { "__A", "" }, { "&", "" }, { "&amp;", "" }, { "&amp;amp;", "" }, { "(", ")" }, { "( ,", " ;)" }, { "a (", "-)" },
        { " ", "" }, { ", ", "" }, { "\n", "" }, { "\n\n[[", "]]" }, { "==", "" }, { "\n==a==", "" }, { "\n======a======\n=b=", "" }, { "*", "" }, { "\n:", "{|" }, { ":", "{|" }, { "|", "" },
        { "<sup>", "" }, { "<sup>1</sup>", "" }, { "<poem>\n", "" }, { "{{a\n|", "" }, { "<ref>{{", "}}" }, { "{{<ref>", "" }, { "[[a\n\n", "]]" }, { "\xc3", "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) linear(rows[i], 25000);
}

static void a_million_that_never_close(void **state)
{
    (void)state;
    static const Nest rows[] = { { "{{", "" }, { "[[", "" }, { "\n{|", "" }, { "<ref>", "" }, { "<!--", "" }, { "{{[[\n{|<ref><!--", "" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) linear(rows[i], 250000);
}

static int out_free(void **state)
{
    (void)state;
    buffer_free(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pieces), cmocka_unit_test(dump_is_as_expected), cmocka_unit_test(any_bytes),
        cmocka_unit_test(hostile_nesting_is_linear), cmocka_unit_test(a_million_that_never_close),
    };
    return cmocka_run_group_tests(tests, NULL, out_free);
}
