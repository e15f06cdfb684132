/* fastText models that are damaged: refused with the file, the byte and a way out, or read without harm. */
#include "base/testing.h"
#include "fasttext_fake.h"
#include "text/fasttext/langid.h"

static FakeFile file;

static const char *path_of(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/jotun-damage-%d", (int)getpid());
    return path;
}

static Fake *fake(int i)
{
    static Fake k;
    k = (Fake){ .loss = 1 + i % 4, .dim = 4, .bucket = 5, .word_ngram = 2, .minn = 2, .maxn = 3, .kept = i % 3 == 2 ? 3 : -1 };
    fake_fill(&k, (uint32_t)i, i % 3 > 0, i % 3 > 1, i % 3 > 1);
    return &k;
}

/* Opens the model and, where that succeeds, classifies with it */
static Status file_try(const void *data, size_t bytes)
{
    static const char text[] = "och det \xC3\xA5r hus __label__sv \xFF\xFF </s> x";
    Langid *langid;
    LangidSpace *space;
    LangidGuess guess[4];
    fake_write(path_of(), data, bytes);
    Status status = langid_open(&langid, path_of());
    if (status != OK) return status;
    assert_int_equal(langid_space_open(&space, langid), OK);
    for (size_t n = 0; n < sizeof text; n += 9) {
        int count = langid_guess(langid, space, text, (int64_t)n, guess, 4);
        assert_in_range(count, 0, 4);
        for (int i = 0; i < count; i++) {
            assert_in_range(guess[i].label, 0, langid_labels(langid) - 1);
            assert_true(guess[i].probability >= 0 && guess[i].probability <= 1);
            assert_true(strlen(langid_label(langid, guess[i].label)) < bytes);
        }
    }
    langid_space_close(space);
    langid_close(langid);
    return OK;
}

/* A file truncated anywhere, or longer by a byte */
static void cut(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        put_fake(&file, fake(i));
        assert_int_equal(file_try(file.data, file.bytes), OK);
        for (size_t bytes = 0; bytes < file.bytes; bytes += bytes < 700 ? 1 : 97) {
            assert_int_equal(file_try(file.data, bytes), BAD_FILE);
            assert_contains(fail_text(), path_of());
        }
        put_byte(&file, 0);
        assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
        assert_contains(fail_text(), "1 bytes more than a model has; the model is damaged or truncated: copy it again");
    }
}

/* One field changed: position, width, value, and the message. Words begin at byte 92, as in put_fake. */
static void fields(void **state)
{
    (void)state;
    enum { INPUT = 92 + 45 + 5 * 11 + 11 * 10 };              /* position of the input matrix's kind */
    static const struct { int at, width; int64_t value; const char *says; } row[] = {
        { 0, 4, 793712315, "is not a fastText model" },
        { 4, 4, 13, "of version 13, and versions 11 and 12 are read" },
        { 8, 4, 0, "byte 8: the dimension is 0, which is not one of 1 to 4096" },
        { 8, 4, -16, "the dimension is -16" },
        { 8, 4, 1 << 20, "the dimension is 1048576" },
        { 8, 4, 5, "the input matrix is 4, which is not one of 5 to 5" },
        { 28, 4, 1000, "the length of word n-grams is 1000" },
        { 32, 4, 5, "byte 32: the loss is 5" },
        { 36, 4, 1, "holds word vectors, not labels; give a model of `fasttext supervised`" },
        { 40, 4, -1, "the number of buckets is -1" },
        { 40, 4, 0, "no buckets for subwords of up to 3 characters" },
        { 40, 4, 6, "the input matrix is 11, which is not one of 12 to 12" },
        { 48, 4, 65, "the longest subword is 65" },
        { 64, 4, 0, "the number of words and labels is 0" },
        { 64, 4, 0x7FFFFFFF, "the number of words and labels is 2147483647" },
        { 64, 4, 12, "6 words and 5 labels are not the 12 entries announced" },
        { 68, 4, 7, "7 words and 5 labels are not the 11 entries announced" },
        { 72, 4, 0, "the number of labels is 0" },
        { 76, 8, -1, "the number of tokens is -1" },
        { 84, 8, -2, "the number of buckets kept is -2" },
        { 84, 8, 1 << 30, "the number of buckets kept is 1073741824" },
        { 84, 8, 0, "the input matrix is 11, which is not one of 6 to 6" },
        { 97, 8, -1, "byte 97: a word's count is -1" },
        { 105, 1, 1, "byte 105: an entry of kind 1 where a word is expected" },
        { INPUT - 9, 8, (int64_t)1000000000000000, "__label__fi and the labels before it have counts of 1e15 or more" },
        { INPUT, 1, 2, "the input's kind is 2, neither 0 nor 1" },
        { INPUT + 1, 8, 12, "the input matrix is 12, which is not one of 11 to 11" },
        { INPUT + 9, 8, -4, "the input matrix is -4" },
        { INPUT + 17, 4, 0x7FC00000, "number 0 of the input matrix is nan" },
        { INPUT + 21, 4, 0x7F800000, "number 1 of the input matrix is inf" },
        { INPUT + 25, 4, 0x60000000, "number 2 of the input matrix is 3.68935e+19" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        put_fake(&file, fake(0));
        memcpy(file.data + row[i].at, &row[i].value, (size_t)row[i].width);
        assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
        assert_contains(fail_text(), row[i].says);
    }
}

static void quantisers(void **state)
{
    (void)state;
    Fake *k = fake(1);
    k->input.width = 2;                               /* 2 parts of 3 and 1, declared as 2 and 1 */
    put_fake(&file, k);
    assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
    assert_contains(fail_text(), "2 parts of 2, the last of 1, are not 4 dimensions");
    k = fake(1);
    k->input.rows--;
    put_fake(&file, k);
    assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
    k = fake(2);
    k->from[1] = k->bucket;
    put_fake(&file, k);
    assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
    assert_contains(fail_text(), "a bucket that was kept is 5, which is not one of 0 to 4");
    k = fake(2);
    k->output.norm_centroid[3] = -2e6f;
    put_fake(&file, k);
    assert_int_equal(file_try(file.data, file.bytes), BAD_FILE);
    assert_contains(fail_text(), "number 3 of the output matrix is -2e+06");
}

static void no_file(void **state)
{
    (void)state;
    Langid *langid;
    assert_int_equal(langid_open(&langid, "/nowhere/lid.bin"), BAD_FILE);
    assert_contains(fail_text(), "/nowhere/lid.bin: cannot be read");
    assert_null(langid);
}

/* A tree of labels with count 0 is a chain: deep, but the walk's stack is not. */
static void deep_tree(void **state)
{
    (void)state;
    enum { LABELS = 3000 };
    FakeFile *f = &file;
    f->bytes = 0;
    for (int i = 0; i < 14; i++) put_int(f, (int[]){ 793712314, 12, 1, 5, 5, 1, 5, 1, 1, 3, 0, 0, 0, 100 }[i]);
    put(f, &(double){ 1e-4 }, 8);
    put_int(f, LABELS + 1), put_int(f, 1), put_int(f, LABELS);
    put_long(f, 1), put_long(f, -1);
    for (int i = 0; i <= LABELS; i++) {
        char word[16];
        put(f, word, (size_t)snprintf(word, sizeof word, i ? "l%d" : "och", i) + 1);
        put_long(f, 0);
        put_byte(f, i > 0);
    }
    for (int i = 0; i < 2; i++) {
        int rows = i ? LABELS : 1;
        put_byte(f, 0), put_long(f, rows), put_long(f, 1);
        for (int r = 0; r < rows; r++) put(f, &(float){ 0 }, 4);
    }
    assert_int_equal(file_try(f->data, f->bytes), OK);
}

/* Random bytes changed, and fields set to boundary values: refused, or read without harm */
static void mutations(void **state)
{
    (void)state;
    static const int64_t edge[] = { 0, 1, -1, 127, 255, 32767, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 0x7FC00000 };
    static FakeFile mutant;
    uint32_t seed = 11;
    int opened = 0, all = getenv("JOTUN_FULL") ? 60000 : 6000;
    for (int i = 0; i < all; i++) {
        put_fake(&file, fake(i % 12));
        mutant = file;
        size_t head = 92 + 200;                       /* the header, where fields are dense */
        for (uint32_t n = fake_random(&seed) % 3 + 1; n; n--) {
            size_t most = fake_random(&seed) % 2 ? head : file.bytes - 8, at = fake_random(&seed) % most, width = 1u << fake_random(&seed) % 4;
            int64_t value = edge[fake_random(&seed) % (sizeof edge / sizeof *edge)];
            if (fake_random(&seed) % 2) mutant.data[at] ^= (uint8_t)(1u << fake_random(&seed) % 8);
            else memcpy(mutant.data + at, &value, width);
        }
        if (fake_random(&seed) % 16 == 0) mutant.bytes -= fake_random(&seed) % mutant.bytes;
        Status status = file_try(mutant.data, mutant.bytes);
        assert_true(status == OK || status == BAD_FILE);
        opened += status == OK;
    }
    print_message("%d mutants, %d opened\n", all, opened);
    assert_true(opened > all / 20 && opened < all * 19 / 20);        /* both outcomes must occur */
}

static int end(void **state)
{
    (void)state;
    unlink(path_of());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut), cmocka_unit_test(fields), cmocka_unit_test(quantisers), cmocka_unit_test(no_file),
        cmocka_unit_test(deep_tree), cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests_name("text/fasttext_damage", tests, NULL, end);
}
