/* Test sets in documents against a naive search of words, and cutting against marks on every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include "corpus/dedup/contamination.h"
#include "corpus/texts.h"
#include <cmocka.h>              /* after base/status.h, since it has a macro named fail */
#undef fail

static char path[2][64];
static const char *const paths[] = { path[0], path[1] };

static void file_put(int i, const char *text)
{
    FILE *file = fopen(path[i], "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static Contamination *open_made(int words)
{
    Contamination *c;
    assert_int_equal(contamination_open(&c, &(ContaminationPlan){ paths, 2, "text", words }), OK);
    return c;
}

static void hits_by_hand(void **state)
{
    (void)state;
    file_put(0, "one two three four five\n\nshort one\nsix seven eight nine\n");
    file_put(1, "{\"text\":\"Alfa, beta GAMMA delta; two three four five\"}\n");
    Contamination *c = open_made(4);
    assert_int_equal(contamination_short(c), 1);
    ContaminationFound f = { 0 };
    const char *text = "say: beta gamma (delta) TWO three, four five six seven eight nine";
    assert_int_equal(contamination_find(c, &f, text, (int64_t)strlen(text)), OK);
    const ContaminationHit want[] = { { 5, 27, 1, 1, 2 }, { 10, 33, 1, 1, 3 }, { 17, 39, 1, 1, 4 }, { 24, 44, 0, 1, 2 }, { 45, 65, 0, 3, 1 } };
    assert_int_equal(f.hits, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(f.hit[i].from, want[i].from);
        assert_int_equal(f.hit[i].end, want[i].end);
        assert_int_equal(f.hit[i].file, want[i].file);
        assert_int_equal(f.hit[i].word, want[i].word);
    }
    assert_int_equal(f.hit[0].text, 1);
    assert_int_equal(f.hit[4].text, 3);                    /* a blank line is no text */
    assert_int_equal(contamination_find(c, &f, "two three four six five", 23), OK);
    assert_int_equal(f.hits, 0);
    contamination_found_free(&f);
    contamination_close(c);
}

/* Documents are normalized before; test sets are not: decomposed, with soft hyphens, NBSPs. Bytes that are
 * no text are refused. */
static void test_sets_are_normalized(void **state)
{
    (void)state;
    file_put(0, "a\xCC\x8Angar o\xCC\x88" "ar alg\xC2\xAD" "ar\nett\xC2\xA0tv\xC3\xA5 tre\xC2\xA0" "fyra\n");
    file_put(1, "");
    Contamination *c = open_made(3);
    ContaminationFound f = { 0 };
    const char *text[] = { ("\xC3\xA5ngar \xC3\xB6" "ar algar"), "ett tv\xC3\xA5 tre", "tv\xC3\xA5 tre fyra" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(contamination_find(c, &f, text[i], (int64_t)strlen(text[i])), OK);
        assert_int_equal(f.hits, 1);
    }
    contamination_found_free(&f);
    contamination_close(c);
}

/* Words of one blank each: a gram is a string */
static bool naive_has(char *const *set, int64_t sets, const char *gram)
{
    char between[512];
    snprintf(between, sizeof between, " %s ", gram);
    for (int64_t i = 0; i < sets; i++)
        if (strstr(set[i], between)) return true;
    return false;
}

static void hits_against_naive(void **state)
{
    (void)state;
    enum { SETS = 40, WORDS = 5 };
    char *set[SETS], *all = calloc(1, 1 << 18);
    for (int i = 0; i < SETS; i++) {                       /* few words, so that some come again by chance */
        set[i] = calloc(1, 4096);
        strcat(set[i], " ");
        for (uint64_t w = 0; w < 100; w++) sprintf(set[i] + strlen(set[i]), "w%d ", (int)(random_uniform((uint64_t)i, w) * 6));
        strcat(strcat(all, set[i]), "\n");
    }
    file_put(0, all);
    file_put(1, "");
    Contamination     *c = open_made(WORDS);
    ContaminationFound f = { 0 };
    int64_t hits = 0, places = 0;
    for (uint64_t t = 0; t < 200; t++) {
        char    text[4096] = "", *gram = text;
        int64_t at = 0;
        for (uint64_t w = 0; w < 50; w++) sprintf(text + strlen(text), "w%d%s", (int)(random_uniform(t + 1000, w) * 8), w < 49 ? " " : "");
        assert_int_equal(contamination_find(c, &f, text, (int64_t)strlen(text)), OK);
        for (int w = 0; w + WORDS <= 50; w++, gram += 3, places++) {
            gram[3 * WORDS - 1] = 0;
            bool has = naive_has(set, SETS, gram);
            if (w + WORDS < 50) gram[3 * WORDS - 1] = ' ';
            assert_int_equal(at < f.hits && f.hit[at].from == gram - text, has);
            at += has;
        }
        assert_int_equal(at, f.hits);
        hits += f.hits;
    }
    assert_true(hits > 500 && hits < places / 2);
    contamination_found_free(&f);
    contamination_close(c);
    for (int i = 0; i < SETS; i++) free(set[i]);
    free(all);
}

/* gone[i]: is byte i removed? Marks each hit, its sides, up to the next blank; the pieces are the runs left. */
static int64_t cut_naive(ContaminationPiece *piece, int64_t *cuts, const ContaminationFound *f, ContaminationCut cut, const char *text, int64_t bytes)
{
    char   *gone = calloc(1, (size_t)bytes + 1);
    int64_t pieces = 0;
    for (int64_t h = 0; h < f->hits; h++) {
        int64_t from = f->hit[h].from, end = f->hit[h].end;
        for (int64_t n = 0; n < cut.side && from > 0; n++) do from--; while (from > 0 && (text[from] & 0xC0) == 0x80);
        for (int64_t n = 0; n < cut.side && end < bytes; n++) do end++; while (end < bytes && (text[end] & 0xC0) == 0x80);
        while (from > 0 && text[from - 1] != ' ') from--;
        while (end < bytes && text[end] != ' ') end++;
        memset(gone + from, 1, (size_t)(end - from));
    }
    *cuts = 0;
    for (int64_t at = 0, to; at < bytes; at = to) {
        int64_t count = 0;
        for (to = at; to < bytes && gone[to] == gone[at]; to++) count += (text[to] & 0xC0) != 0x80;
        *cuts += gone[at];
        if (!gone[at] && count >= cut.piece) piece[pieces++] = (ContaminationPiece){ at, to };
    }
    free(gone);
    return *cuts > cut.cuts ? 0 : pieces;
}

static void cuts_against_naive(void **state)
{
    (void)state;
    file_put(0, "kal kal kal\n");
    file_put(1, "");
    Contamination     *c = open_made(3);
    ContaminationFound f = { 0 };
    int64_t many = 0, some = 0;
    for (uint64_t t = 0; t < 2000; t++) {
        char text[8192] = "";
        int64_t words = (int64_t)(random_uniform(1, t) * 400);
        for (uint64_t w = 0; w < (uint64_t)words; w++) {
            double drawn = random_uniform(t + 5, w);
            strcat(text, drawn < 0.02 ? "kal kal kal" : drawn < 0.1 ? "\xc3\xa5\xe2\x82\xac" : drawn < 0.2 ? "x,y" : "ord");
            strcat(text, drawn > 0.5 && drawn < 0.7 ? "-" : " ");
        }
        ContaminationPiece piece[512];
        ContaminationCut   cut = { (int64_t)(random_uniform(2, t) * 40), (int64_t)(random_uniform(3, t) * 60), 4 };
        int64_t bytes = (int64_t)strlen(text), cuts;
        assert_int_equal(contamination_find(c, &f, text, bytes), OK);
        int64_t pieces = cut_naive(piece, &cuts, &f, cut, text, bytes);
        assert_int_equal(contamination_cut(&f, cut, text, bytes), OK);
        assert_int_equal(f.cuts, cuts);
        assert_int_equal(f.pieces, pieces);
        assert_memory_equal(f.piece, piece, (size_t)pieces * sizeof *piece);
        many += cuts > cut.cuts;
        some += pieces > 1;
    }
    assert_true(many > 100 && some > 100);
    contamination_found_free(&f);
    contamination_close(c);
}

/* No blank for a megabyte, and a hit at every word */
static void long_words(void **state)
{
    (void)state;
    enum { BYTES = 4 << 20 };
    file_put(0, "k k k\n");
    Contamination     *c = open_made(3);
    ContaminationFound f = { 0 };
    char *text = malloc(BYTES);
    for (int64_t i = 0; i < BYTES; i++) text[i] = i % 2 ? '-' : i / 1000 % 5 ? 'k' : 'x';
    assert_int_equal(contamination_find(c, &f, text, BYTES), OK);
    assert_true(f.hits > BYTES / 4);
    assert_int_equal(contamination_cut(&f, (ContaminationCut){ 2, 200, 10 }, text, BYTES), OK);
    assert_int_equal(f.cuts, 1);
    assert_int_equal(f.pieces, 0);
    free(text);
    contamination_found_free(&f);
    contamination_close(c);
}

static void refusals(void **state)
{
    (void)state;
    Contamination *c;
    assert_int_equal(contamination_open(&c, &(ContaminationPlan){ paths, 2, "text", 65 }), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "65 words"));
    assert_int_equal(contamination_open(&c, &(ContaminationPlan){ (const char *const[]){ "/nowhere.txt" }, 1, "text", 13 }), BAD_FILE);
    file_put(1, "{\"body\":\"no text\"}\n");
    assert_int_equal(contamination_open(&c, &(ContaminationPlan){ paths, 2, "text", 13 }), BAD_FILE);
    assert_non_null(strstr(fail_text(), path[1]));
    file_put(0, "one two\nthree \xC3( four\n");                          /* not UTF-8 */
    assert_int_equal(contamination_open(&c, &(ContaminationPlan){ paths, 1, "text", 2 }), BAD_FILE);
    assert_non_null(strstr(fail_text(), path[0]));
    assert_non_null(strstr(fail_text(), "UTF-8"));
    assert_null(c);
}

int main(void)
{
    snprintf(path[0], sizeof path[0], "/tmp/jotun-contamination-%d.txt", (int)getpid());
    snprintf(path[1], sizeof path[1], "/tmp/jotun-contamination-%d.jsonl", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_by_hand), cmocka_unit_test(test_sets_are_normalized),
        cmocka_unit_test(hits_against_naive),
        cmocka_unit_test(cuts_against_naive),
        cmocka_unit_test(long_words),
        cmocka_unit_test(refusals),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path[0]), unlink(path[1]);
    return failed;
}
