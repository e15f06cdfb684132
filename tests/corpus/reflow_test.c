/* Wrapped lines become paragraphs, and what a line end means something in stays as it is. */
#include "base/testing.h"
#include <stdio.h>
#include <string.h>
#include "corpus/prose/html_to_text.h"
#include "corpus/prose/reflow.h"

static Buffer out;

static void gives(Markup markup, const char *text, const char *want)
{
    out.bytes = 0;
    if (markup == MARKUP_HTML) assert_int_equal(html_to_text(&out, text, (int64_t)strlen(text)), OK);
    else                       assert_int_equal(reflow(&out, text, (int64_t)strlen(text), markup), OK);
    assert_string_equal(buffer_string(&out), want);
}

/* A paragraph at 60 columns, of which each test needs some to have a column at all. */
#define WRAPPED "It was a bright cold day in the middle of the month, and the\n" \
                "people who lived along the canal had put their chairs out to\n" \
                "sit in the sun, as they did whenever they could, and to talk\n" \
                "about the weather.\n"
#define JOINED  "It was a bright cold day in the middle of the month, and the people who lived along the canal had put " \
                "their chairs out to sit in the sun, as they did whenever they could, and to talk about the weather."

static void paragraphs_are_joined(void **state)
{
    (void)state;
    gives(MARKUP_TEXT, WRAPPED, JOINED);
    gives(MARKUP_TEXT, "\n\n" WRAPPED "\n\n\n\n" WRAPPED "\n", JOINED "\n\n\n" JOINED);
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, and the\r\npeople sat.\r\n",
          "It was a bright cold day in the middle of the month, and the people sat.");
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, and the\rpeople sat.\r",
          "It was a bright cold day in the middle of the month, and the people sat.");
    /* Paragraphs that an indent begins; a block that is indented whole. */
    gives(MARKUP_TEXT, "   It was a bright cold day in the middle of the month, and\n"
                       "the people who lived along the canal had put their chairs\n"
                       "out.\n"
                       "   They sat in the sun, as they did whenever they could, and\n"
                       "talked about the weather.\n",
          "   It was a bright cold day in the middle of the month, and the people who lived along the canal had put their "
          "chairs out.\n   They sat in the sun, as they did whenever they could, and talked about the weather.");
    gives(MARKUP_TEXT, "    It was a bright cold day in the middle of the month, and\n    the people sat.\n",
          "    It was a bright cold day in the middle of the month, and the people sat.");
    /* A name at the beginning of a line is no verse. */
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, when\nAnna came home from the sea, and brought her brother with her\n"
                       "to stay.\n",
          "It was a bright cold day in the middle of the month, when Anna came home from the sea, and brought her brother "
          "with her to stay.");
    gives(MARKUP_TEXT, "", "");
    gives(MARKUP_TEXT, "one\n", "one");
}

static void joints(void **state)
{
    (void)state;
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, a well-\nknown one.\n",
          "It was a bright cold day in the middle of the month, a well-known one.");
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, it was--\nor so they said.\n",
          "It was a bright cold day in the middle of the month, it was--or so they said.");
    gives(MARKUP_TEXT, "It was a bright cold day in the middle of the month, a beau\xc2\xad\ntiful one.\n",
          "It was a bright cold day in the middle of the month, a beautiful one.");
    gives(MARKUP_TEXT, "\xe5\xbd\xbc\xe5\xa5\xb3\xe3\x81\xaf\xe6\x98\xa8\xe6\x97\xa5\xe3\x81\xae\xe6\x9c\x9d\xe6\x97\xa9\xe3\x81\x8f\xe8\xb5\xb7\xe3\x81\x8d\xe3\x81\xa6"
                       "\xe5\xb7\x9d\xe3\x81\xae\xe3\x81\xbb\xe3\x81\xa8\xe3\x82\x8a\xe3\x82\x92\xe9\x95\xb7\xe3\x81\x84\xe9\x96\x93\xe6\xad\xa9\xe3\x81\x84\xe3\x81\xa6\n"
                       "\xe3\x81\x84\xe3\x81\x9f\n",
          "\xe5\xbd\xbc\xe5\xa5\xb3\xe3\x81\xaf\xe6\x98\xa8\xe6\x97\xa5\xe3\x81\xae\xe6\x9c\x9d\xe6\x97\xa9\xe3\x81\x8f\xe8\xb5\xb7\xe3\x81\x8d\xe3\x81\xa6"
          "\xe5\xb7\x9d\xe3\x81\xae\xe3\x81\xbb\xe3\x81\xa8\xe3\x82\x8a\xe3\x82\x92\xe9\x95\xb7\xe3\x81\x84\xe9\x96\x93\xe6\xad\xa9\xe3\x81\x84\xe3\x81\xa6"
          "\xe3\x81\x84\xe3\x81\x9f");
}

/* Each of these is kept, whether a wrapped paragraph is in the same file or not. */
static void other_lines_stay(void **state)
{
    static const char *const kept[] = {
        "Milk and eggs\nCall Anna about the car\nwrite to the bank regarding the mortgage\nBread",
        "- milk\n- eggs and whatever else is needed for the cake of Sunday\n- bread",
        "1. milk\n2. eggs\n10) bread",
        "Name         Born   Died\nAnna         1901   1980\nBertil       1899   1944",
        "name\tborn\nAnna\t1901",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quoted by one who wrote it some time ago, and who had much\n> to say",
        "for (int i = 0; i < n; i++) {\n    total += value[i];\n    count++;\n}\nreturn total;",
        "CHAPTER I\n* * *\nIn which a man begins",
        "Anna Andersson\nStorgatan 14\n123 45 Storstad",
    };
    char text[4096], want[4096];
    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        gives(MARKUP_TEXT, kept[i], kept[i]);
        snprintf(text, sizeof text, WRAPPED "\n%s\n\n" WRAPPED, kept[i]);
        snprintf(want, sizeof want, JOINED "\n\n%s\n\n" JOINED, kept[i]);
        gives(MARKUP_TEXT, text, want);
    }
    /* Verse as long as a column of prose would be. */
    const char *verse = "Shall I compare thee to a summer's day, and hold my pen here\n"
                        "Thou art more lovely and more temperate than the month of May\n"
                        "Rough winds do shake the darling buds of May in all of June\n"
                        "And summer's lease hath all too short a date to last so long";
    gives(MARKUP_TEXT, verse, verse);
    /* One line for each paragraph: nothing is wrapped. */
    gives(MARKUP_TEXT, JOINED "\n" JOINED "\nand so on\n" JOINED, JOINED "\n" JOINED "\nand so on\n" JOINED);
}

static void lists_hang(void **state)
{
    (void)state;
    gives(MARKUP_TEXT, WRAPPED "\n- an item that is longer than the line that it begins, and so\n  it goes on below\n- another\n",
          JOINED "\n\n- an item that is longer than the line that it begins, and so it goes on below\n- another");
}

static void markdown(void **state)
{
    (void)state;
    gives(MARKUP_MARKDOWN, "---\ntitle: x\n---\n# Heading\n" WRAPPED "```c\nint a;\n\n\n\nwhich is a line of code that is as long as those of the text\nint b;\n```\n" WRAPPED,
          "---\ntitle: x\n---\n# Heading\n" JOINED "\n```c\nint a;\n\n\nwhich is a line of code that is as long as those of the text\nint b;\n```\n" JOINED);
    gives(MARKUP_MARKDOWN, WRAPPED "\n    an indented line of code that is as long as those of the te\n    xt\n\n[1]: http://a/b\n[2]: http://c/d\n",
          JOINED "\n\n    an indented line of code that is as long as those of the te\n    xt\n\n[1]: http://a/b\n[2]: http://c/d");
    gives(MARKUP_MARKDOWN, WRAPPED "\nIt was a bright cold day in the middle of the month, and  \na hard break, which is two blanks at the end of a line that\\\nends.\n",
          JOINED "\n\nIt was a bright cold day in the middle of the month, and\na hard break, which is two blanks at the end of a line that\\\nends.");
    gives(MARKUP_MARKDOWN, WRAPPED "\n* an item that is longer than the line that it begins, so that\n\n    it has a second paragraph, as long as a line of this text is,\n    and more\n",
          JOINED "\n\n* an item that is longer than the line that it begins, so that\n\n    it has a second paragraph, as long as a line of this text is, and more");
}

static void other_markups(void **state)
{
    (void)state;
    gives(MARKUP_REST, WRAPPED "\nThe following is code, and this line has a length that is::\n\n    as it stands, in a line that is as long as those of the text\n    here\n\n.. note:: a note that is as long as those lines of the text are\n   below\n\n" WRAPPED,
          JOINED "\n\nThe following is code, and this line has a length that is::\n\n    as it stands, in a line that is as long as those of the text\n    here\n\n.. note:: a note that is as long as those lines of the text are\n   below\n\n" JOINED);
    gives(MARKUP_ORG, "#+TITLE: x\n* Heading of a section that is as long as a line of this text\n" WRAPPED "#+begin_src c\nthis is a line of code that is as long as those of the text\nint b;\n#+END_SRC\n" WRAPPED,
          "#+TITLE: x\n* Heading of a section that is as long as a line of this text\n" JOINED "\n#+begin_src c\nthis is a line of code that is as long as those of the text\nint b;\n#+END_SRC\n" JOINED);
    gives(MARKUP_TEX, "\\section{A section whose title is as long as a line of this text}\n" WRAPPED "\\begin{verbatim}\nthis is a line of code that is as long as those of the text\nint b;\n\\end{verbatim}\n% a comment that is as long as the lines of this text, which is\n" WRAPPED
                      "\\begin{itemize}\n\\item an item that is longer than the line that it begins and\nso it goes on\n\\item x\n\\end{itemize}\n",
          "\\section{A section whose title is as long as a line of this text}\n" JOINED "\n\\begin{verbatim}\nthis is a line of code that is as long as those of the text\nint b;\n\\end{verbatim}\n% a comment that is as long as the lines of this text, which is\n" JOINED
          "\n\\begin{itemize}\n\\item an item that is longer than the line that it begins and so it goes on\n\\item x\n\\end{itemize}");
}

static void html(void **state)
{
    (void)state;
    gives(MARKUP_HTML, "<!DOCTYPE html><html><head><title>No</title><style>p > a { x: '<b>' }</style></head>\n<body>\n<h1>A  heading</h1>\n<nav><a href='x'>menu</a></nav>"
                       "<p class=\"a>b\">One <b>bold</b>\nword &amp; &quot;an&nbsp;other&quot; &#229; &amp;lt; &unknown; a < b.</p><p>Two<br>lines</p>\n"
                       "<ul>\n<li>first</li>\n<li>second <i>one</i></li></ul><table><tr><th>a</th><th>b</th></tr>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr></table>"
                       "<pre>\nx  =  1\n  y\n</pre>after<!-- not this --><script>if (a < b) document.write('<p>');</script>.</body></html>\n",
          "A heading\n\nOne bold word & \"an other\" \xc3\xa5 &lt; &unknown; a < b.\n\nTwo\nlines\n\n- first\n- second one\n\na | b\n1 | 2\n\nx  =  1\n  y\n\nafter.");
    gives(MARKUP_HTML, "a <p title=\"never closed>b", "a\n\nb");
    gives(MARKUP_HTML, "a <p never closed", "a <p never closed");
    gives(MARKUP_HTML, "a<script>b", "ab");
    gives(MARKUP_HTML, "a<!-- b", "a");
    gives(MARKUP_HTML, "</p></div>  <p>  </p>", "");
}

static void looks(void **state)
{
    static char text[1 << 16];
    (void)state;
    assert_int_equal(lines_look(WRAPPED, sizeof WRAPPED - 1), LINES_UNSURE);
    for (int i = 0; i < 20; i++) strcat(text, WRAPPED);
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_TEXT);
    *text = 0;
    for (int i = 0; i < 5; i++) strcat(text, JOINED "\n\n");
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_TEXT);
    *text = 0;
    for (int i = 0; i < 20; i++) strcat(text, JOINED "\n");
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_DOCUMENTS);
    *text = 0;
    for (int i = 0; i < 200; i++) sprintf(text + strlen(text), "the document with number %d has these words of its own\n", i);
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_DOCUMENTS);
    *text = 0;
    for (int i = 0; i < 200; i++) sprintf(text + strlen(text), "%s sentence for each line, as a corpus of sentences has it.\n", i % 3 ? "A" : "One");
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_DOCUMENTS);
    *text = 0;
    for (int i = 0; i < 500; i++) sprintf(text + strlen(text), "word%d\n", i);
    assert_int_equal(lines_look(text, (int64_t)strlen(text)), LINES_DOCUMENTS);
    assert_int_equal(lines_look("a\nb\n", 4), LINES_UNSURE);
}

static int teardown(void **state)
{
    (void)state;
    buffer_free(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paragraphs_are_joined), cmocka_unit_test(joints), cmocka_unit_test(other_lines_stay),
        cmocka_unit_test(lists_hang), cmocka_unit_test(markdown), cmocka_unit_test(other_markups), cmocka_unit_test(html),
        cmocka_unit_test(looks),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
