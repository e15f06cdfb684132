/* Characters: what is normalized, what is foreign, what falls, and that where a character stands changes nothing. */
#include "base/testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "corpus/quality/charset.h"

static Buffer text, spare;

static Charset *open(const char *names, CharsetMode mode, CharsetEmoji emoji)
{
    Charset    *c;
    CharsetPlan plan = CHARSET_PLAN;
    plan.names = names, plan.mode = mode, plan.emoji = emoji;
    if (charset_open(&c, &plan) != OK) fail_msg("%s", fail_text());
    return c;
}

static CharsetVerdict apply(const Charset *c, const char *from, int64_t bytes)
{
    CharsetVerdict v;
    text.bytes = 0;
    assert_int_equal(buffer_add(&text, from, bytes), OK);
    assert_int_equal(charset_apply(c, &text, &spare, &v), OK);
    assert_int_equal(buffer_add(&text, "", 1), OK);
    text.bytes--;
    return v;
}

typedef struct { const char *from, *to; int64_t count[CHARSET_COUNTS]; } Row;

/* The same wherever it stands in 16 bytes, on a line of its own */
static void row_holds(const Charset *c, const Row *row)
{
    char from[512], to[512];
    for (int pad = 0; pad < 33; pad++) {
        int more = pad ? pad - 1 : 0;
        int used = snprintf(from, sizeof from, "%.*s%s%s", more, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", pad ? "\n" : "", row->from);
        snprintf(to, sizeof to, "%.*s%s%s", more, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", pad ? "\n" : "", row->to);
        CharsetVerdict v = apply(c, from, used);
        assert_string_equal(text.text, to);
        for (int i = CHARSET_NORMALIZED; i < CHARSET_DOCUMENT; i++)
            if (v.count[i] != row->count[i]) fail_msg("%s: %s: %d", row->from, charset_count_name((CharsetCount)i), (int)v.count[i]);
    }
}

static void normalizes(void **state)
{
    (void)state;
    static const Row rows[] = {
        { "r\xc3\xa4v, \xe2\x80\x93 \xe2\x80\x9d" "a\xe2\x80\x9d\t1 \xc2\xbd", "r\xc3\xa4v, \xe2\x80\x93 \xe2\x80\x9d" "a\xe2\x80\x9d\t1 \xc2\xbd", { 0 } },
        { "ra\xcc\x88v", "r\xc3\xa4v", { [CHARSET_NORMALIZED] = 1 } },                                           /* a, U+0308 */
        { "K\xe2\x84\xaa \xef\xac\x81", "KK \xef\xac\x81", { [CHARSET_NORMALIZED] = 1 } },                        /* KELVIN SIGN; the ligature stays */
        { "av\xc2\xadsked\xe2\x80\x8b\xef\xbb\xbf\x01\x7f\xc2\x80", "avsked", { [CHARSET_INVISIBLE] = 6 } },
        { "10\xc2\xa0kr\xe2\x80\x89x\xe2\x80\xafy\xe3\x80\x80z", "10 kr x y z", { [CHARSET_BLANK] = 4 } },
        { "a\r\nb\rc\xe2\x80\xa8" "d\x0b" "e\xc2\x85" "f", "a\nb\nc\nd\ne\nf", { 0 } },
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", { 0 } },
        { "ra\xe2\x80\x8b\xcc\x88v", "r\xc3\xa4v", { [CHARSET_NORMALIZED] = 1, [CHARSET_INVISIBLE] = 1 } },
        { "", "", { 0 } } };
    Charset *c = open("sv", CHARSET_NONE, EMOJI_FOREIGN);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) row_holds(c, &rows[i]);
    charset_close(c);
    c = open("sv", CHARSET_NONE, EMOJI_REMOVE);
    row_holds(c, &(Row){ "hej \xf0\x9f\x98\x80\xef\xb8\x8f\xe2\x98\xba!", "hej !", { [CHARSET_INVISIBLE] = 1, [CHARSET_EMOJI] = 2 } });
    charset_close(c);
}

static bool strict(const char *names, const char *from)
{
    Charset *c = open(names, CHARSET_STRICT, EMOJI_FOREIGN);
    bool first = false;
    for (int pad = 0; pad < 33; pad++) {
        char padded[256];
        int  used = snprintf(padded, sizeof padded, "%.*s%s", pad, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", from);
        CharsetVerdict v = apply(c, padded, used);
        assert_int_equal(v.dropped, v.first != 0);
        assert_int_equal(v.count[CHARSET_DOCUMENT], v.dropped);
        if (pad) assert_int_equal(v.dropped, first);
        first = v.dropped;
    }
    charset_close(c);
    return !first;
}

static void languages_differ(void **state)
{
    (void)state;
    static const struct { const char *names, *takes, *not; } rows[] = {
        { "sv", "R\xc3\xa4ksm\xc3\xb6rg\xc3\xa5s, caf\xc3\xa9, \xc5\xa0i\xc5\xa1kin, Pite \xc5\x8a", "\xc4\xb0stanbul" },
        { "sv", "5 \xe2\x82\xac \xe2\x89\x88 4 \xc2\xb5m \xe2\x80\xa6", "\xd0\x9c" "oskva" },
        { "sv", "a", "\xce\xb1" }, { "sv", "a", "\xe6\x97\xa5" }, { "sv", "a", "\xf0\x9f\x98\x80" }, { "sv", "a", "\xef\xbf\xbd" },
        { "sv,latin", "\xc4\xb0stanbul \xe1\xba\xa0", "\xd0\x9c" },
        { "tr", "\xc4\xb0stanbul \xc5\x9f\xc4\xb1\xc4\x9f", "\xc5\x99" }, { "tr,cs", "\xc5\x99 \xc4\xb1", "\xc8\x99" },
        { "pl", "\xc5\xbb\xc3\xb3\xc5\x82\xc4\x87", "\xc8\x99" }, { "ro", "\xc8\x98i \xc8\x9b", "\xc4\xb1" },
        { "cy", "t\xc5\xb7 \xe1\xba\x85", "\xc5\x91" }, { "mt", "\xc4\xa6\xc4\xa7 \xc4\xa0", "\xc5\x91" },
        { "se", "\xc5\x8a\xc5\x8b \xc5\xa6\xc5\xa7 \xc4\x90", "\xc5\x91" }, { "hu", "\xc5\xb0\xc5\x91", "\xc4\xb1" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!strict(rows[i].names, rows[i].takes)) fail_msg("%s does not take %s", rows[i].names, rows[i].takes);
        if (strict(rows[i].names, rows[i].not)) fail_msg("%s takes %s", rows[i].names, rows[i].not);
    }
    CharsetPlan plan = CHARSET_PLAN;
    Charset *c;
    plan.names = "sv,xx";
    assert_int_equal(charset_open(&c, &plan), BAD_OPTION);
    assert_contains(fail_text(), "--charset xx: no such language; sv, da,");
}

/* Moskva (ryska: Москва) and its like */
#define MOSKVA "\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0"
static void graded_lets_articles_live(void **state)
{
    (void)state;
    static const Row rows[] = {
        { "Moskva (ryska: " MOSKVA ") \xc3\xa4r stor.", "Moskva \xc3\xa4r stor.", { [CHARSET_PARENTHESIS] = 1 } },
        { "a ((" MOSKVA ")) b (c (" MOSKVA ") d) (e", "a b (c d) (e", { [CHARSET_PARENTHESIS] = 3 } },
        { "(En lång, lång parentes om allt mellan himmel och jord \xc3\xa4r kvar: \xce\xb1) ja, det är sant och visst, och mycket mer",
          "(En lång, lång parentes om allt mellan himmel och jord \xc3\xa4r kvar: \xce\xb1) ja, det är sant och visst, och mycket mer", { 0 } },
        { "b\nEn rad med en \xce\xb1 och fyrtiofem bokst\xc3\xa4ver, inte en enda mer (" MOSKVA MOSKVA ", ja det heter den ju)", "b\n",
          { [CHARSET_PARENTHESIS] = 1, [CHARSET_LINE] = 1 } },
        { "b) ) x\nSt\xc3\xa5r \xce\xb1\xce\xb2\xce\xb3 h\xc3\xa4r.\nslut", "b) ) x\nslut", { [CHARSET_LINE] = 1 } },
        { "x\n(" MOSKVA ")\n\nslut", "x\n\nslut", { [CHARSET_PARENTHESIS] = 1 } } };
    Charset *c = open("sv", CHARSET_GRADED, EMOJI_FOREIGN);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) row_holds(c, &rows[i]);
    static const char four[] = "a\nb\n\nc\n" MOSKVA "\n", three[] = "a\nb\nc\n\n" MOSKVA "\n\xce\xb1";
    assert_false(apply(c, "d\na\nb\n\nc\n" MOSKVA, sizeof "d\na\nb\n\nc\n" MOSKVA - 1).dropped);
    assert_true(apply(c, four, sizeof four - 1).dropped);
    CharsetVerdict v = apply(c, three, sizeof three - 1);
    assert_true(v.dropped && v.first == 0x41C && v.count[CHARSET_LINE] == 2 && v.count[CHARSET_DOCUMENT] == 1);
    charset_close(c);
}

/* A million bytes of the worst: time must not grow faster than the text. */
static void hostile_is_linear(void **state)
{
    (void)state;
    static const char *const unit[] = { "(", "(\xce\xb1", "(\xce\xb1)", "\xcc\x81", "\xcc\x81\xcc\xa3", "\n\xce\xb1", "\xe0\xa5\x98", "\xc2\xad", "\xe1\x84\x80" };
    Charset *c = open("sv", CHARSET_GRADED, EMOJI_FOREIGN);
    enum { SIZE = 2 << 20 };
    char *all = malloc(SIZE);
    for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
        size_t length = strlen(unit[u]), bytes = SIZE / length * length;
        for (size_t i = 0; i < bytes; i++) all[i] = unit[u][i % length];
        clock_t begin = clock();
        apply(c, all, (int64_t)bytes);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 8) fail_msg("%zu: %.1f s", u, seconds);
    }
    free(all);
    charset_close(c);
}

static int teardown(void **state)
{
    (void)state;
    buffer_free(&text);
    buffer_free(&spare);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(normalizes), cmocka_unit_test(languages_differ),
        cmocka_unit_test(graded_lets_articles_live), cmocka_unit_test(hostile_is_linear) };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
