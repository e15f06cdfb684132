/* Exact duplicates against a naive search, in memory and on disk; normalizations, lines and paragraphs by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <stdatomic.h>
#include "base/random.h"
#include "base/seam.h"
#include "corpus/dedup/exact.h"
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <cmocka.h>              /* after base/status.h, since it has a macro named fail */
#undef fail

static char folder[64];

static bool equal_by(const char *row, const char *a, const char *b)
{
    Hash128    x, y;
    ExactSpace space = { 0 };
    const ExactNormalization *n = exact_normalization_find(row);
    assert_non_null(n);
    assert_int_equal(exact_hash(&x, n, &space, a, (int64_t)strlen(a)), OK);
    assert_int_equal(exact_hash(&y, n, &space, b, (int64_t)strlen(b)), OK);
    exact_space_free(&space);
    return x.low == y.low && x.high == y.high;
}

static void normalizations(void **state)
{
    (void)state;
    static const struct { const char *a, *b; bool equal[4]; } rows[] = {
        { "en text",                   "en text",               { 1, 1, 1, 1 } },
        { "en  text\n",                "\xc2\xa0" "en\xe2\x80\x83text", { 0, 1, 1, 1 } },
        { "En text!",                  "en, text",              { 0, 0, 1, 1 } },
        { "\xc3\x85r 1999",            "A\xcc\x8ar 2024.",      { 0, 0, 0, 1 } },
        { "\xc3\x85r",                 "a\xcc\x8ar",            { 0, 0, 1, 1 } },
        { "entext",                    "en text",               { 0, 0, 0, 0 } },
        { "en text",                   "text en",               { 0, 0, 0, 0 } },
        { "!!!",                       "???",                   { 0, 0, 0, 0 } },      /* nothing would be left */
        { " ",                         "\n",                    { 0, 0, 0, 0 } },
        { "",                          "",                      { 1, 1, 1, 1 } },
        { "a\xff",                     "a",                     { 0, 0, 1, 1 } },
        { "\xe2\x82",                  "\xe2\x82",              { 1, 1, 1, 1 } },
    };
    static const char *const name[] = { "none", "spaces", "words", "digits" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int n = 0; n < 4; n++)
            if (equal_by(name[n], rows[i].a, rows[i].b) != rows[i].equal[n]) {
                print_error("row %zu: %s\n", i, name[n]);
                assert_true(false);
            }
    assert_null(exact_normalization_find("word"));
}

static void parts_are(ExactUnit unit, const char *text, const char *joined)
{
    char      out[256] = "";
    ExactWalk walk = { .unit = unit, .text = text, .bytes = (int64_t)strlen(text) };
    const char *part;
    int64_t   bytes;
    while (exact_part(&walk, &part, &bytes)) snprintf(out + strlen(out), sizeof out - strlen(out), "%.*s|", (int)bytes, part);
    assert_string_equal(out, joined);
}

static void parts(void **state)
{
    (void)state;
    parts_are(EXACT_DOCUMENTS, "a\n\nb\n", "a\n\nb\n|");
    parts_are(EXACT_DOCUMENTS, "", "|");
    parts_are(EXACT_LINES, "a\r\n\n \nb c\nd", "a|b c|d|");
    parts_are(EXACT_LINES, "", "");
    parts_are(EXACT_LINES, "\n\n", "");
    parts_are(EXACT_PARAGRAPHS, "\n\na\nb\r\n \nc\n\n\nd\ne\n", "a\nb|c|d\ne|");
    parts_are(EXACT_PARAGRAPHS, "a", "a|");
}

/* Items with few distinct hashes, two kinds of which agree with others only in one half; `same`: the kind. */
enum { COUNT = 20000, VALUES = 9000 };

static Hash128 hash_made(int64_t i, bool narrow, int64_t *same)
{
    uint64_t value = (uint64_t)(random_uniform(1, (uint64_t)i) * VALUES), kind = value % 3;
    *same = (int64_t)(narrow && kind == 2 ? value - 2 : value);        /* as kind 0 in the lower half */
    return (Hash128){ random_mix(kind == 1, value / 3), random_mix(kind == 2, value / 3) };
}

static int64_t firsts_make(int64_t *first, bool narrow)
{
    int64_t seen[VALUES], gone = 0, same;
    memset(seen, -1, sizeof seen);
    for (int64_t i = 0; i < COUNT; i++) {
        hash_made(i, narrow, &same);
        first[i] = seen[same] < 0 ? i : seen[same];
        seen[same] = first[i];
        gone += first[i] != i;
    }
    return gone;
}

static atomic_long writes;

static ssize_t counting_write(int fd, const void *data, size_t bytes, off_t at)
{
    writes++;
    return seam_system.write(fd, data, bytes, at);
}

static void against_naive(void **state)
{
    (void)state;
    static int64_t first[2][COUNT];
    int64_t same;
    assert_true(firsts_make(first[0], false) > 0 && firsts_make(first[1], true) > 0);
    seam.write = counting_write;
    for (int run = 0; run < 6; run++) {
        Exact *exact;
        Team  *team;
        bool   narrow = run % 2;
        ExactPlan plan = { .folder = folder, .memory = run < 4 ? run * 20000 : 1 << 26, .narrow = narrow, .keepers = run != 3 };
        writes = 0;
        assert_int_equal(team_open(&team, 1 + run % 3), OK);
        assert_int_equal(exact_open(&exact, &plan), OK);
        for (int64_t i = 0; i < COUNT; i++) assert_int_equal(exact_add(exact, hash_made(i, narrow, &same)), OK);
        assert_int_equal(exact_resolve(exact, team), OK);
        for (int64_t i = 0; i < COUNT; i++) {
            assert_int_equal(exact_removed(exact, i), first[narrow][i] != i);
            if (plan.keepers) assert_int_equal(exact_keeper(exact, i), first[narrow][i]);
        }
        assert_int_equal(writes > 0, run < 4);
        exact_close(exact);
        team_close(team);
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/jotun-exact-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalizations),
        cmocka_unit_test(parts),
        cmocka_unit_test(against_naive),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (rmdir(folder) != 0) return 1;              /* something was left in it */
    return failed;
}
