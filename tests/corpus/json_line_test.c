/* The line scanner against jansson: both accept the same lines and read the same text from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "base/random.h"
#include "corpus/read/json_line.h"
#include <cmocka.h>

static const char *const seeds[] = {
    "{\"text\": \"r\xc3\xa4v\", \"id\": 1}",
    "{\"id\":-0.5e+3,\"meta\":{\"a\":[1,2,{\"text\":\"no\"}],\"b\":null},\"text\":\"\\u00e5\\n\\\"\\\\\\/\\b\\f\\r\\t\"}",
    "{\"text\":\"\\ud83d\\ude00 \xf0\x9f\x98\x80\",\"t\":true,\"f\":false,\"n\":null}",
    "{ \"te\\u0078t\" : \"named with an escape\" , \"x\" : [ ] , \"y\" : { } }",
    "{\"text\":\"first\",\"text\":\"last\"}",
    "{\"text\":\"a long enough text to be read eight bytes at a time, with \\u0000 in it and more behind\"}",
    "{\"a\":[[[[{\"b\":[{}]}]]]],\"text\":\"\"}",
    "{\"n\":[0,10,1.25,-1e5,2E-7],\"text\":\"\xe2\x82\xac\xed\x9f\xbf\xee\x80\x80\"}",
};
enum { SEEDS = sizeof seeds / sizeof *seeds, MUTATED = 100000 };
static const char *const wanted[] = { "text" };

/* 1 taken, 0 refused, -1 where jansson refuses a number for its size, which we do not read */
static int by_jansson(char *out, int64_t *bytes, const char *line, int64_t length)
{
    json_error_t error;
    json_t *whole = json_loadb(line, (size_t)length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!whole) return json_error_code(&error) == json_error_numeric_overflow ? -1 : 0;
    const json_t *text = json_object_get(whole, "text");
    int taken = json_is_string(text);
    if (taken) memcpy(out, json_string_value(text), (size_t)(*bytes = (int64_t)json_string_length(text)));
    json_decref(whole);
    return taken;
}

static int compared(const char *line, int64_t length)
{
    char mine[512], theirs[512];
    int64_t bytes = 0;
    JsonText text;
    memcpy(mine, line, (size_t)length);
    int take = by_jansson(theirs, &bytes, line, length);
    JsonFault fault = json_line_texts(&text, wanted, 1, mine, length);
    if (take < 0) return take;
    if (take != (fault.why == NULL)) print_error("%.*s\nwe say %s\n", (int)length, line, fault.why ? fault.why : "fine");
    assert_int_equal(take, fault.why == NULL);
    if (!take && fault.key < 0) assert_memory_equal(mine, line, (size_t)length);
    if (!take) return take;
    assert_int_equal(text.bytes, bytes);
    assert_memory_equal(text.text, theirs, (size_t)bytes);
    return take;
}

static void seeds_are_taken(void **state)
{
    (void)state;
    for (int i = 0; i < SEEDS; i++) assert_int_equal(compared(seeds[i], (int64_t)strlen(seeds[i])), 1);
}

/* Bytes overwritten, dropped, doubled and moved over from other seeds; taken mostly from what JSON is made of. */
static int64_t line_mutate(char *line, uint64_t seed)
{
    static const char pieces[] = "\"\\{}[]:,0123456789eE+-.ntfu \tud83d\\u\x01\x1f\x7f\x80\xc2\xe0\xed\xf0\xf4\xff";
    static const char *const runs[] = { "\\ud83d", "\\ude00", "\\u0000", "true", "null", "[[", "]]", "{\"", "\"text\":", "1e", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf" };
    uint64_t at = 0;
#define DRAW(n) (random_bits(random_key(seed, "line"), at++) % (uint64_t)(n))
    const char *from = seeds[DRAW(SEEDS)];
    int64_t length = (int64_t)strlen(from);
    memcpy(line, from, (size_t)length);
    for (uint64_t i = 1 + DRAW(3); i; i--) {
        int64_t place = (int64_t)DRAW(length);
        const char *run = runs[DRAW(sizeof runs / sizeof *runs)];
        switch (DRAW(4)) {
        case 0: line[place] = pieces[DRAW(sizeof pieces - 1)]; break;
        case 1: memmove(line + place, line + place + 1, (size_t)(--length - place)); break;
        case 2: memmove(line + place + strlen(run), line + place, (size_t)(length - place));
                memcpy(line + place, run, strlen(run));
                length += (int64_t)strlen(run);
                break;
        default: line[place] = (char)(line[place] ^ 1 << DRAW(8));
        }
    }
#undef DRAW
    return length;
}

static void mutated_lines_agree(void **state)
{
    (void)state;
    int took[3] = { 0 };
    char line[512];
    for (uint64_t i = 0; i < MUTATED; i++) took[compared(line, line_mutate(line, i)) + 1]++;
    print_message("%d lines: %d taken, %d refused by both; %d with a number too large for jansson\n", MUTATED,
                  took[2], took[1], took[0]);
    assert_true(took[2] > MUTATED / 20 && took[1] > MUTATED / 20 && took[0] < MUTATED / 100);
}

/* Long texts of characters of one to four bytes, in half of them one that is broken: a block of 64 bytes at a time */
static void long_texts_agree(void **state)
{
    (void)state;
    static const char *const good[] = { "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\\n" };
    static const char *const bad[] = { "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xe0\xa0", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                       "\xf0\x90\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2\x80\x80", "\x1f" };
    static const char end[] = "\",\"id\":\"some more that makes the line long enough for a block to the end of the text\"}";
    int took[2] = { 0 };
    for (uint64_t i = 0; i < MUTATED; i++) {
        char line[512];
        uint64_t at = 0, key = random_key(i, "text"), wrong = i % 2 ? random_bits(key, at++) % 80 : 80;
        int64_t length = snprintf(line, sizeof line, "{\"text\":\"");
        for (uint64_t c = 0; c < 80; c++) {
            uint64_t draw = random_bits(key, at++);
            const char *one = c == wrong ? bad[draw % (sizeof bad / sizeof *bad)] : draw % 4 ? "b" : good[draw / 4 % (sizeof good / sizeof *good)];
            memcpy(line + length, one, strlen(one));
            length += (int64_t)strlen(one);
        }
        memcpy(line + length, end, sizeof end - 1);
        took[compared(line, length + (int64_t)sizeof end - 1)]++;
    }
    assert_int_equal(took[0], MUTATED / 2);
    assert_int_equal(took[1], MUTATED / 2);
}

static void depth_ends_where_jansson_ends(void **state)
{
    (void)state;
    for (int depth = JSON_DEPTH_MOST - 3; depth <= JSON_DEPTH_MOST; depth++) {
        char line[2 * JSON_DEPTH_MOST + 64], *p = line;
        json_error_t error;
        JsonText text;
        memcpy(p, "{\"text\":\"\",\"a\":", 15), p += 15;
        memset(p, '[', (size_t)depth), p += depth;
        memset(p, ']', (size_t)depth), p += depth;
        *p++ = '}';
        json_t *whole = json_loadb(line, (size_t)(p - line), 0, &error);
        assert_int_equal(whole != NULL, json_line_texts(&text, wanted, 1, line, p - line).why == NULL);
        json_decref(whole);
    }
}

static void faults_are_placed(void **state)
{
    (void)state;
    static const struct { const char *line, *why; int at; } row[] = {
        { "{\"text\": }",                "no value", 9 },             { "[1]", "not an object", 0 },
        { "{\"text\": \"a",              "closing quote", 11 },       { "{\"text\": \"a\"", "the line is cut", 12 },
        { "{\"text\": \"a\"} x",         "after the object", 14 },   { "{\"text\": \"\\ud83d\"}", "surrogate", 12 },
        { "{\"text\": \"a\",}",          "a name in quotes", 13 },    { "{\"a\": 01, \"text\": \"\"}", "begins with 0", 8 },
        { "{\"text\" \"a\"}",            "a colon", 8 },              { "{\"text\": \"\xc0\x80\"}", "not UTF-8", 10 },
        { "{\"te\\u0000xt\": \"a\"}",    "\\u0000", 13 },             { "", "not an object", 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char line[64];
        JsonText text;
        memcpy(line, row[i].line, strlen(row[i].line));
        JsonFault fault = json_line_texts(&text, wanted, 1, line, (int64_t)strlen(row[i].line));
        assert_non_null(fault.why);
        if (!strstr(fault.why, row[i].why)) print_error("%s: %s\n", row[i].line, fault.why);
        assert_non_null(strstr(fault.why, row[i].why));
        assert_int_equal(fault.at, row[i].at);
        assert_int_equal(fault.key, -1);
    }
}

static void keys_are_many(void **state)
{
    (void)state;
    static const char *const keys[] = { "title", "text" };
    char line[] = "{\"text\": \"a\\tb\", \"title\": \"\\u00d6\"}", lacking[] = "{\"title\": \"a\\n\", \"text\": 3}", names[64];
    JsonText text[2];
    assert_null(json_line_texts(text, keys, 2, line, sizeof line - 1).why);
    assert_int_equal(text[0].bytes, 2);
    assert_memory_equal(text[0].text, "\xc3\x96", 2);
    assert_memory_equal(text[1].text, "a\tb", 3);
    assert_int_equal(json_line_texts(text, keys, 2, lacking, sizeof lacking - 1).key, 1);
    json_line_names(names, sizeof names, lacking, sizeof lacking - 1);
    assert_string_equal(names, "\"title\", \"text\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_are_taken),
        cmocka_unit_test(mutated_lines_agree),
        cmocka_unit_test(long_texts_agree),
        cmocka_unit_test(depth_ends_where_jansson_ends),
        cmocka_unit_test(faults_are_placed),
        cmocka_unit_test(keys_are_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
