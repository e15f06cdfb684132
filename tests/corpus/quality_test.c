/* Rules of quality: against what datatrove says of each document and rule, by hand, and on hostile texts. */
#include "base/testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "corpus/read/json_line.h"
#include "corpus/quality/quality.h"

static Buffer text;
static QualitySpace *space;

static Quality *open(const char *presets, const char *changes, const char *bad)
{
    Quality    *q = NULL;
    QualityPlan plan;
    if (quality_plan(&plan, presets) != OK || (changes && quality_set(&plan, changes) != OK) || quality_open(&q, &plan, "sv", bad) != OK)
        fail_msg("%s", fail_text());
    return q;
}

static void text_set(const char *from, int64_t bytes)
{
    text.bytes = 0;
    assert_int_equal(buffer_add(&text, from, bytes), OK);
}

static QualityVerdict filter(const Quality *q, const char *from)
{
    QualityVerdict v;
    text_set(from, (int64_t)strlen(from));
    assert_int_equal(quality_check(q, space, &text, &v), OK);
    assert_int_equal(buffer_add(&text, "", 1), OK);
    text.bytes--;
    return v;
}

/* ---- datatrove ---- */

/* One filter for each rule that is on, which has no other; NULL where it is off or removes lines. */
static void singles_open(Quality *one[QUALITY_RULES], const QualityPlan *plan)
{
    for (int r = 0; r < QUALITY_RULES; r++) {
        QualityPlan only = *plan;
        one[r] = NULL;
        if (!plan->on[r] || quality_row[r].side == QUALITY_LINE) continue;
        for (int k = 0; k < QUALITY_RULES; k++) only.on[k] = k == r;
        assert_int_equal(quality_open(&one[r], &only, "sv", NULL), OK);
    }
}

static bool names_has(JsonText names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names.text, *stop = at + names.bytes; at < stop; at++) {
        size_t bytes = strcspn(at, ",\"");
        if (bytes == length && !memcmp(at, name, length)) return true;
        at += bytes;
    }
    return false;
}

static void as_datatrove(void **state)
{
    (void)state;
    static const char *const key[] = { "text", "broken", "kept" };
    static const char changes[] = "words-max=150,sentences=off";
    QualityPlan plan;
    Quality *one[QUALITY_RULES], *lines = open("c4", "sentences=off,lorem-ipsum=off,curly=off", NULL);
    assert_int_equal(quality_plan(&plan, "gopher,repetition,c4,fineweb"), OK);
    assert_int_equal(quality_set(&plan, changes), OK);
    singles_open(one, &plan);
    FILE *file = fopen(TESTS_DIR "/golden/quality/datatrove.jsonl", "r");
    assert_non_null(file);
    char  *line = NULL;
    size_t capacity = 0;
    int    count = 0;
    for (ssize_t bytes; (bytes = getline(&line, &capacity, file)) > 0; count++) {
        JsonText it[3];
        QualityVerdict v;
        assert_null(json_line_texts(it, key, 3, line, bytes - 1).why);
        text_set(it[0].text, it[0].bytes);
        for (int r = 0; r < QUALITY_RULES; r++) {
            v.rule = -1;
            if (one[r]) assert_int_equal(quality_check(one[r], space, &text, &v), OK);
            if ((v.rule == r) != names_has(it[1], quality_row[r].name))
                fail_msg("line %d: %s: %g", count + 1, quality_row[r].name, v.rule == r ? v.figure : NAN);
            assert_memory_equal(text.text, it[0].text, (size_t)it[0].bytes);
        }
        assert_int_equal(quality_check(lines, space, &text, &v), OK);
        if (text.bytes != it[2].bytes || memcmp(text.text, it[2].text, (size_t)text.bytes))
            fail_msg("line %d:\n%.*s\n--\n%.*s", count + 1, (int)text.bytes, text.text, (int)it[2].bytes, it[2].text);
    }
    assert_in_range(count, 190, 210);
    free(line);
    fclose(file);
    for (int r = 0; r < QUALITY_RULES; r++) quality_close(one[r]);
    quality_close(lines);
}

/* ---- by hand ---- */

static void one_rule_at_a_time(void **state)
{
    (void)state;
    static const struct { const char *rules, *text; int rule; double figure; } rows[] = {
        { "words-min=3", "en tv\xc3\xa5 - !", QUALITY_WORDS_MIN, 2 }, { "words-min=3", "en tv\xc3\xa5 tre", -1, 0 },
        { "stop-words=2", "OCH, och \xc3\x85.", QUALITY_STOP_WORDS, 1 }, { "stop-words=2", "\"Och\" P\xc3\x85!", -1, 0 },
        { "word-length-max=4", "\xc3\xa5\xc3\xa4\xc3\xb6\xc3\xa5\xc3\xa4 \xc3\xb6", -1, 0 },
        { "sentences=4", "Hej, bl.a. du. Vad? \xe2\x80\x9dJa.\xe2\x80\x9d Slut", -1, 0 }, { "sentences=5", "En. Tv\xc3\xa5! 3 4 fem.\nSex", QUALITY_SENTENCES, 4 },
        { "curly=on", "a { b", QUALITY_CURLY, 1 }, { "lorem-ipsum=on", "x\nLorem IPSUM", QUALITY_LOREM, 1 },
        { "repeated-lines=0.3", "a\nb\na\n", QUALITY_REPEATED_LINES, 1 / 3. }, { "repeated-paragraphs=0.3", "a\nb\n\nc\n\na\nb", QUALITY_REPEATED_PARAGRAPHS, 1 / 3. },
        { "repeated-paragraph-chars=0.1", "a\nb\n\nc\n\na\nb", QUALITY_REPEATED_PARAGRAPH_CHARS, 3 / 11. },
        { "top-2-gram=0.5", "a b a b c", QUALITY_TOP_2, 6 / 9. }, { "top-3-gram=0.5", "a b", -1, 0 },
        { "repeated-5-grams=0", "a b c d e a b c d e", QUALITY_GRAM_5, 5 / 19. }, { "new-lines=0.3", "a\nb\nc d", QUALITY_NEW_LINES, 0.5 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Quality *q = open("none", rows[i].rules, NULL);
        QualityVerdict v = filter(q, rows[i].text);
        if (v.rule != rows[i].rule || (v.rule >= 0 && fabs(v.figure - rows[i].figure) > 1e-12))
            fail_msg("%s: %s: %d, %g", rows[i].rules, rows[i].text, v.rule, v.figure);
        quality_close(q);
    }
}

static void lines_fall(void **state)
{
    (void)state;
    Quality *q = open("c4", "sentences=off", NULL);
    QualityVerdict v = filter(q, "   [edit] Det var en g\xc3\xa5ng. [1] \nMeny\nTv\xc3\xa5 ord.\nSl\xc3\xa5 p\xc3\xa5 JavaScript nu.\nOch s\xc3\xa5 vidare...\nDet \xc3\xa4r slut!\n");
    assert_int_equal(v.rule, -1);
    assert_string_equal(text.text, "Det var en g\xc3\xa5ng.\nDet \xc3\xa4r slut!");
    assert_int_equal(v.lines[QUALITY_LINE_END], 2);
    assert_int_equal(v.lines[QUALITY_LINE_WORDS], 1);
    assert_int_equal(v.lines[QUALITY_JAVASCRIPT], 1);
    assert_int_equal(v.lines[QUALITY_CITATIONS], 2);
    quality_close(q);
    q = open("none", "words-min=1", NULL);
    filter(q, "  a \n\n b");
    assert_string_equal(text.text, "  a \n\n b");
    quality_close(q);
    q = open("fineweb", "words-max=on,line-end=on,short-lines=off", NULL);        /* what is left is judged */
    assert_int_equal(filter(q, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nEn rad med \xc3\xa5tta ord till och med.").rule, -1);
    quality_close(q);
}

static void bad_words_are_found(void **state)
{
    (void)state;
    char path[] = "/tmp/jotun-words-XXXXXX";
    int  fd = mkstemp(path);
    static const char words[] = "Fula\n\n tv\xc3\xa5 ord\n\xc3\x84NNU tre fula ord\n";
    assert_int_equal(write(fd, words, sizeof words - 1), sizeof words - 1);
    close(fd);
    Quality *q = open("none", NULL, path);
    static const struct { const char *text; int count; } rows[] = {
        { "en FULA.", 1 }, { "fulare afula", 0 }, { "tv\xc3\xa5, ord", 1 }, { "tv\xc3\xa5 tv\xc3\xa5 ordet", 0 },
        { "\xc3\xa4nnu tre fula ord", 2 }, { "\xc3\xa4nnu tre ord", 0 }, { "", 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        QualityVerdict v = filter(q, rows[i].text);
        assert_int_equal(v.rule, rows[i].count ? QUALITY_BAD_WORDS : -1);
        if (rows[i].count) assert_int_equal((int)v.figure, rows[i].count);
    }
    quality_close(q);
    remove(path);
}

static void plans_are_judged(void **state)
{
    (void)state;
    QualityPlan plan;
    Quality *q;
    assert_int_equal(quality_plan(&plan, "gopher,best"), BAD_OPTION);
    assert_contains(fail_text(), "--quality best: no such preset");
    assert_int_equal(quality_plan(&plan, ""), BAD_OPTION);
    assert_int_equal(quality_plan(&plan, "gopher"), OK);
    assert_true(plan.on[QUALITY_WORDS_MIN] && !plan.on[QUALITY_TOP_2] && !plan.on[QUALITY_BAD_WORDS]);
    assert_int_equal(quality_set(&plan, "words-min=10,stop-words=off,top-2-gram=on"), OK);
    assert_true(plan.limit[QUALITY_WORDS_MIN] == 10 && !plan.on[QUALITY_STOP_WORDS] && plan.on[QUALITY_TOP_2] && plan.limit[QUALITY_TOP_2] == 0.2);
    static const char *const wrong[] = { "words=1", "words-min", "words-min=", "words-min=x", "words-min=1x", "words-min=-1", "words-min=nan", "words-min=1,,curly=on", "" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(quality_set(&plan, wrong[i]), BAD_OPTION);
    assert_int_equal(quality_plan(&plan, "gopher"), OK);
    assert_int_equal(quality_open(&q, &plan, "xx", NULL), BAD_OPTION);
    assert_contains(fail_text(), "stop-words=off");
    plan.on[QUALITY_BAD_WORDS] = true;
    assert_int_equal(quality_open(&q, &plan, "sv", NULL), BAD_OPTION);
    assert_contains(fail_text(), "--bad-words");
    assert_int_equal(quality_open(&q, &plan, "sv", "/none"), BAD_FILE);
}

static void hostile_is_linear(void **state)
{
    (void)state;
    static const char *const unit[] = { "a", "a ", " ", "\n", "a\n", "a b c d e\n", "[", "[1", "...", "lorem ipsu", "\xe2\x80\xa6", ". ", "{\"", "use use ", "a a a b " };
    Quality *loose, *lines = open("c4", NULL, NULL);
    QualityPlan plan;
    QualityVerdict v;
    assert_int_equal(quality_plan(&plan, "gopher,repetition,c4,fineweb"), OK);
    for (int r = 0; r < QUALITY_RULES; r++) {                   /* nothing breaks a rule, so all are looked at */
        plan.on[r] = plan.on[r] && quality_row[r].side != QUALITY_LINE;
        plan.limit[r] = quality_row[r].side == QUALITY_LEAST ? 0 : 1e300;
    }
    assert_int_equal(quality_open(&loose, &plan, "sv", NULL), OK);
#ifdef __SANITIZE_THREAD__
    enum { SIZE = 1 << 18 };                   /* ThreadSanitizer is slow here: some 10 times */
#else
    enum { SIZE = 2 << 20 };
#endif
    char *all = malloc(SIZE);
    for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
        size_t length = strlen(unit[u]), bytes = SIZE / length * length;
        for (size_t i = 0; i < bytes; i++) all[i] = unit[u][i % length];
        clock_t begin = clock();
        text_set(all, (int64_t)bytes);
        assert_int_equal(quality_check(loose, space, &text, &v), OK);
        assert_int_equal(v.rule, -1);
        assert_int_equal(quality_check(lines, space, &text, &v), OK);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 10) fail_msg("%s: %.1f s", unit[u], seconds);
    }
    free(all);
    quality_close(loose);
    quality_close(lines);
}

static int setup(void **state)
{
    (void)state;
    return quality_space_open(&space) != OK;
}

static int teardown(void **state)
{
    (void)state;
    quality_space_close(space);
    buffer_free(&text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_datatrove), cmocka_unit_test(one_rule_at_a_time), cmocka_unit_test(lines_fall),
        cmocka_unit_test(bad_words_are_found), cmocka_unit_test(plans_are_judged), cmocka_unit_test(hostile_is_linear) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
