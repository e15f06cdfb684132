/* Words and shingles against a naive computation for the same texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <utf8proc.h>
#include "corpus/dedup/shingle.h"
#include "corpus/texts.h"
#include <cmocka.h>              /* after base/status.h, since it has a macro named fail */
#undef fail

typedef struct { char text[600]; int bytes; int64_t from, end; } Word;

/* Character by character with utf8proc's categories: letters, marks, numbers */
static int64_t words_naive(Word *word, const char *text, int64_t bytes, bool digits)
{
    int64_t words = 0;
    bool    inside = false;
    for (int64_t at = 0; at < bytes; ) {
        utf8proc_int32_t point;
        utf8proc_ssize_t n = utf8proc_iterate((const uint8_t *)text + at, bytes - at, &point);
        int  kind = n > 0 ? utf8proc_category(point) : 0;
        bool part = kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NO;
        if (n <= 0) n = 1;
        if (part && !inside) word[words++] = (Word){ .from = at };
        inside = part;
        if (part) {
            Word *w = &word[words - 1];
            if (kind >= UTF8PROC_CATEGORY_ND && digits) w->text[w->bytes++] = '0';
            else w->bytes += (int)utf8proc_encode_char(utf8proc_tolower(point), (uint8_t *)w->text + w->bytes);
            w->end = at + n;
        }
        at += n;
    }
    return words;
}

static bool word_equal(const Word *a, const Word *b) { return a->bytes == b->bytes && !memcmp(a->text, b->text, (size_t)a->bytes); }

/* The same places, and equal hashes for equal words alone */
static int64_t words_check(const char *text, int64_t bytes, bool digits)
{
    Word    *word = calloc((size_t)bytes + 1, sizeof *word);
    uint64_t hash[700];
    int64_t  words = words_naive(word, text, bytes, digits), seen = 0;
    char    *copy = malloc((size_t)(bytes ? bytes : 1));               /* of exactly its length: no byte after it may be read */
    WordSpan w;
    memcpy(copy, text, (size_t)bytes);
    for (WordWalk walk = { .text = copy, .bytes = bytes, .digits = digits }; word_next(&walk, &w); seen++) {
        assert_true(seen < words);
        assert_int_equal(w.from, word[seen].from);
        assert_int_equal(w.end, word[seen].end);
        hash[seen] = w.hash;
        for (int64_t i = 0; i < seen; i++) assert_int_equal(hash[i] == hash[seen], word_equal(&word[i], &word[seen]));
    }
    assert_int_equal(seen, words);
    free(word);
    free(copy);
    return words;
}

static void words_by_hand(void **state)
{
    (void)state;
    const char *same[] = { "Don't PANIC", "don t panic", "DON\xe2\x80\x99T,panic!!", " don-t\npanic\xff" };
    WordSpan w;
    uint64_t hash[3];
    for (int i = 0; i < 4; i++) {
        WordWalk walk = { .text = same[i], .bytes = (int64_t)strlen(same[i]) };
        for (int j = 0; j < 3; j++) {
            assert_true(word_next(&walk, &w));
            if (i == 0) hash[j] = w.hash;
            assert_int_equal(hash[j], w.hash);
        }
        assert_false(word_next(&walk, &w));
    }
    const char *upper = "\xc3\x85NGSTR\xc3\x96M STRASSE \xd0\x9c\xd0\x9e\xd0\xa1\xd0\x9a\xd0\x92\xd0\x90 abcdefghijklmnopqrstuv\xc3\x84 \xc3\x97 7";
    assert_int_equal(words_check(upper, (int64_t)strlen(upper), false), 5);
}

/* Random sequences of pieces that reach every branch; the same pieces occur in different words. */
static void words_of_any_text(void **state)
{
    (void)state;
    static const char *const piece[] = { "a", "B", "ab", "abcdefg", "Abcdefgh", "abcdefghi", "abcdefghijklmno", "abcdefghijklmnop", "0", "12",
        "9", " ", " ", " ", " ", ".", ", ", "\n", "'", "\xc3\xa5", "\xc3\x85", "\xc3\x9f", "\xc3\xb7", "\xc3\x97", "\xc3", "\xc3\xc3", "\xa5",
        "\xe2\x80\x93", "\xc5\xa0", "\xc5\xa1", "\xce\xa9", "\xcf\x89", "e\xcc\x81", "\xef\xbc\x91", "\xc2\xb2", "\xf0\x9f\x98\x80", "\xff", "" };
    enum { PIECES = sizeof piece / sizeof *piece };
    for (uint64_t t = 0; t < 3000; t++) {
        char   text[700];
        int    bytes = 0, most = (int)(random_uniform(1, t) * 60);
        for (int i = 0; i < most; i++) {
            const char *p = piece[(int)(random_uniform(random_mix(2, t), (uint64_t)i) * PIECES)];
            memcpy(text + bytes, p, strlen(p));
            bytes += (int)strlen(p);
        }
        if (t % 7 == 0) text[bytes++] = '\0';
        words_check(text, bytes, t % 2);
    }
}

/* Equal runs of n words alone have equal hashes */
static void shingles_roll(void **state)
{
    (void)state;
    const char *text = "a b c d e a b c d e A B C. D b a c d e a b c d";
    for (int n = 1; n <= 6; n++) {
        Shingles s = { 0 };
        Word     word[64] = { 0 };
        int64_t  words = words_naive(word, text, (int64_t)strlen(text), false);
        assert_int_equal(shingles_of(&s, n, text, (int64_t)strlen(text)), OK);
        assert_int_equal(s.count, words - n + 1);
        for (int64_t i = 0; i < s.count; i++)
            for (int64_t j = 0; j < s.count; j++) {
                bool equal = true;
                for (int k = 0; k < n; k++) equal &= word_equal(&word[i + k], &word[j + k]);
                assert_int_equal(s.hash[i] == s.hash[j], equal);
            }
        assert_int_equal(shingles_of(&s, n, "few", 3), OK);
        assert_int_equal(s.count, n == 1);
        shingles_free(&s);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void sets(void **state)
{
    (void)state;
    for (int64_t count = 0; count < 3000; count = count * 3 / 2 + 1) {
        Shingles s = { .hash = malloc((size_t)(count + 1) * 8), .count = count, .capacity = count };
        uint64_t *sorted = malloc((size_t)(count + 1) * 8);
        for (int64_t i = 0; i < count; i++) s.hash[i] = sorted[i] = random_mix(3, (uint64_t)(random_uniform(4, (uint64_t)i) * (double)count));
        qsort(sorted, (size_t)count, 8, by_value);
        int64_t once = 0;
        for (int64_t i = 0; i < count; i++)
            if (!once || sorted[once - 1] != sorted[i]) sorted[once++] = sorted[i];
        assert_int_equal(shingles_set(&s), OK);
        assert_int_equal(s.count, once);
        assert_memory_equal(s.hash, sorted, (size_t)once * 8);
        Shingles half = { sorted + once / 2, once - once / 2, 0 };
        assert_true(shingles_jaccard(&s, &half) == (once ? (double)half.count / (double)once : 0));
        assert_true(shingles_jaccard(&half, &s) == shingles_jaccard(&s, &half));
        shingles_free(&s);
        free(sorted);
    }
}

/* Two hashes with the same first bits by turns, which a sort that moves each of them would take minutes for */
static void sets_of_many_repeats(void **state)
{
    (void)state;
    enum { MANY = 1 << 20 };
    Shingles s = { .hash = malloc(2 * MANY * sizeof *s.hash), .count = MANY, .capacity = 2 * MANY };
    for (int i = 0; i < MANY; i++) s.hash[i] = 1000 - (uint64_t)(i % 2);
    clock_t begun = clock();
    assert_int_equal(shingles_set(&s), OK);
    assert_true((double)(clock() - begun) / CLOCKS_PER_SEC < 10);
    assert_int_equal(s.count, 2);
    assert_true(s.hash[0] == 999 && s.hash[1] == 1000);
    shingles_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_by_hand),
        cmocka_unit_test(words_of_any_text),
        cmocka_unit_test(shingles_roll),
        cmocka_unit_test(sets),
        cmocka_unit_test(sets_of_many_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
