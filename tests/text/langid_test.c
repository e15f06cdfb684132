/* fastText classifiers: small ones of random numbers against a naive reading of the format in double, and
 * those of ../shared, where they are, against fastText's own output. */
#include <inttypes.h>
#include <math.h>
#include "base/testing.h"
#include "fasttext_fake.h"
#include "text/fasttext/langid.h"

#define SHARED TESTS_DIR "/../../shared/data/langid/"
enum { ROWS_MOST = 8192, TOKENS_MOST = 1024 };

/* ---- the oracle: lists of rows, sums in double ---- */

typedef struct { int row[ROWS_MOST]; int rows; } List;
typedef struct { double score; int label; } Scored;

static uint32_t hash_of(const uint8_t *text, int bytes)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < bytes; i++) h = (h ^ (uint32_t)(text[i] < 128 ? text[i] : text[i] - 256)) * 16777619u;
    return h;
}

static void list_gram(List *l, const Fake *k, uint64_t hash)
{
    int bucket = (int)(hash % (uint64_t)k->bucket);
    for (int i = 0; i < k->kept; i++)
        if (k->from[i] == bucket) l->row[l->rows++] = k->words + i;
    if (k->kept < 0) l->row[l->rows++] = k->words + bucket;
}

static void list_subwords(List *l, const Fake *k, const uint8_t *word, int bytes)
{
    uint8_t text[512];
    int start[512], starts = 0, all = bytes + 2;
    text[0] = '<';
    memcpy(text + 1, word, (size_t)bytes);
    text[all - 1] = '>';
    for (int i = 0; i < all; i++)
        if ((text[i] & 0xC0) != 0x80) start[starts++] = i;
    start[starts] = all;
    for (int a = 0; a < starts; a++)
        for (int n = 1; n <= k->maxn && a + n <= starts; n++) {
            bool bare = n == 1 && (a == 0 || a + n == starts);
            if (n >= k->minn && !bare) list_gram(l, k, hash_of(text + start[a], start[a + n] - start[a]));
        }
}

static bool list_word(List *l, const Fake *k, const uint8_t *word, int bytes)
{
    int  id  = -1;
    bool end = bytes == 4 && !memcmp(word, "</s>", 4);
    for (int i = 0; i < k->words + k->labels; i++)
        if (strlen(k->word[i]) == (size_t)bytes && !memcmp(k->word[i], word, (size_t)bytes)) id = i;
    if (id >= k->words || (id < 0 && bytes >= 9 && !memcmp(word, "__label__", 9))) return false;
    if (id >= 0) l->row[l->rows++] = id;
    if (!end && k->maxn > 0) list_subwords(l, k, word, bytes);
    return true;
}

static void list_text(List *l, const Fake *k, const uint8_t *text, int bytes)
{
    int32_t hash[TOKENS_MOST];
    int     hashes = 0;
    bool    ended = false;
    for (int at = 0; at <= bytes && !ended; ) {
        int from = at;
        while (at < bytes && !strchr(" \n\r\t\v\f", text[at])) at++;            /* strchr finds the zero as well */
        const uint8_t *word = at == from ? (const uint8_t *)"</s>" : text + from;
        int length = at == from ? 4 : at - from;
        bool blank = at == from && at < bytes;
        if (!blank && list_word(l, k, word, length)) hash[hashes++] = (int32_t)hash_of(word, length);
        ended = !blank && length == 4 && !memcmp(word, "</s>", 4);
        at += at == bytes && at > from ? 0 : 1;
    }
    for (int i = 0; i < hashes; i++) {
        uint64_t h = (uint64_t)(int64_t)hash[i];
        for (int j = i + 1; j < hashes && j < i + k->word_ngram; j++)
            list_gram(l, k, h = h * 116049371 + (uint64_t)(int64_t)hash[j]);
    }
}

static double dot(const Fake *k, const double *hidden, int row)
{
    double sum = 0;
    for (int d = 0; d < k->dim; d++) sum += hidden[d] * matrix_at(&k->output, row, d);
    return sum;
}

/* The two rarest remaining nodes are joined; of equals an inner node is first, the oldest of them */
static void scores_of_tree(Scored *out, const Fake *k, const double *hidden)
{
    struct { int64_t count; int left, right; bool used; } node[64];
    int nodes = k->labels;
    for (int i = 0; i < nodes; i++) node[i].count = k->count[k->words + i], node[i].left = -1, node[i].used = false;
    for (; nodes < 2 * k->labels - 1; nodes++) {
        int pick[2];
        for (int p = 0; p < 2; p++) {
            int best = -1;
            for (int i = k->labels; i < nodes; i++)
                if (!node[i].used && (best < 0 || node[i].count < node[best].count)) best = i;
            for (int i = k->labels - 1; i >= 0; i--)
                if (!node[i].used && (best < 0 || node[i].count < node[best].count)) best = i;
            node[pick[p] = best].used = true;
        }
        node[nodes].count = node[pick[0]].count + node[pick[1]].count;
        node[nodes].left = pick[0], node[nodes].right = pick[1], node[nodes].used = false;
    }
    double score[64] = { 0 };
    for (int i = nodes - 1; i >= k->labels; i--) {
        double f = 1 / (1 + exp(-dot(k, hidden, i - k->labels)));
        score[node[i].left]  = score[i] + log(1 - f + 1e-5);
        score[node[i].right] = score[i] + log(f + 1e-5);
    }
    for (int i = 0; i < k->labels; i++) out[i] = (Scored){ score[i], i };
}

static void scores_of_outputs(Scored *out, const Fake *k, const double *hidden)
{
    double sum = 0;
    for (int i = 0; i < k->labels; i++) sum += exp(dot(k, hidden, i));
    for (int i = 0; i < k->labels; i++) {
        double x = dot(k, hidden, i), p = exp(x) / sum;
        if (k->loss != 3) p = x < -8 ? 0 : x > 8 ? 1 : 1 / (1 + exp(-(floor((x + 8) * 32) / 32 - 8)));
        out[i] = (Scored){ log(p + 1e-5), i };
    }
}

static int by_score(const void *a, const void *b)
{
    double x = ((const Scored *)a)->score, y = ((const Scored *)b)->score;
    return (x < y) - (x > y);
}

static int oracle(Scored *out, const Fake *k, const uint8_t *text, int bytes)
{
    static List l;
    double hidden[64] = { 0 };
    l.rows = 0;
    list_text(&l, k, text, bytes);
    if (l.rows == 0) return 0;
    for (int d = 0; d < k->dim; d++) {
        for (int i = 0; i < l.rows; i++) hidden[d] += matrix_at(&k->input, l.row[i], d);
        hidden[d] /= l.rows;
    }
    if (k->loss == 1) scores_of_tree(out, k, hidden);
    else              scores_of_outputs(out, k, hidden);
    qsort(out, (size_t)k->labels, sizeof *out, by_score);
    return k->labels;
}

/* ---- models of every kind ---- */

static const char *path_of(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/jotun-fasttext-%d", (int)getpid());
    return path;
}

typedef struct { Langid *langid; LangidSpace *space; } Opened;

static Opened fake_open(const Fake *k)
{
    static FakeFile file;
    Opened o;
    put_fake(&file, k);
    fake_write(path_of(), file.data, file.bytes);
    Status status = langid_open(&o.langid, path_of());
    if (status != OK) fail_msg("%s", fail_text());
    assert_int_equal(langid_space_open(&o.space, o.langid), OK);
    unlink(path_of());
    return o;
}

static void opened_close(Opened o)
{
    langid_space_close(o.space);
    langid_close(o.langid);
}

/* Labels in the oracle's order, except for scores that a float cannot distinguish */
static void text_compare(Opened o, const Fake *k, const uint8_t *text, int bytes)
{
    Scored want[40];
    LangidGuess got[40];
    int count = oracle(want, k, text, bytes);
    uint8_t *exact = malloc((size_t)bytes + !bytes);                /* so that a sanitizer sees a read
                                                                     * beyond it */
    memcpy(exact, text, (size_t)bytes);
    for (int turn = 0; turn < 2; turn++) {                          /* words not cached, then cached */
        int guesses = langid_guess(o.langid, o.space, (const char *)exact, bytes, got, 3);
        assert_int_equal(guesses, count < 3 ? count : 3);
        for (int i = 0; i < guesses; i++) {
            double score = want[i].score;
            if (fabs(fmin(exp(score), 1) - (double)got[i].probability) > 2e-6)
                fail_msg("loss %d, %d-grams, kept %d: place %d is %g, not %g, in \"%.*s\"", k->loss, k->word_ngram, k->kept, i,
                         (double)got[i].probability, exp(score), bytes, (const char *)text);
            bool close = (i && want[i - 1].score - score < 1e-5) || (i + 1 < count && score - want[i + 1].score < 1e-5);
            if (!close) assert_int_equal(got[i].label, want[i].label);
        }
    }
    free(exact);
}

static int text_random(uint8_t *text, uint32_t *state)
{
    static const char *const part[] = {
        "och", "det", "\xC3\xA5r", "x", "hus", "\xC3\xA4pple", "en_ganska_l\xC3\xA5ng_sammans\xC3\xA4ttning", "\xE2\x82\xACuro", "\xA5\xA5z",
        "\xFF", "__label__sv", "__label__xx", "123456789012345678901", "1234567890123456789012", "12345678901234567890123",
        "123456789012345678901234", "\xF0\x9F\x98\x80", "a\xC3", "<s>" };
    static const char blank[] = " \n\r\t\v\f\0 ";
    int bytes = 0, words = (int)(fake_random(state) % 30);
    for (int w = 0; w < words; w++) {
        for (int n = (int)(fake_random(state) % 3); n >= 0; n--) text[bytes++] = (uint8_t)blank[fake_random(state) % 8];
        const char *p = part[fake_random(state) % (sizeof part / sizeof *part)];
        if (fake_random(state) % 97 == 0) p = "</s>";
        memcpy(text + bytes, p, strlen(p));
        bytes += (int)strlen(p);
    }
    return bytes;
}

static void model_compare(const Fake *k, uint32_t seed)
{
    uint8_t text[2048];
    Opened o = fake_open(k);
    text_compare(o, k, (const uint8_t *)"", 0);
    text_compare(o, k, (const uint8_t *)" \n\n ", 4);
    text_compare(o, k, (const uint8_t *)"det </s> och", 12);
    for (int i = 0; i < 30; i++) text_compare(o, k, text, text_random(text, &seed));
    opened_close(o);
}

/* Every loss, dense and quantized, with norms, word n-grams, subwords and pruning, in all their
 * combinations */
static void every_kind(void **state)
{
    (void)state;
    static Fake k;
    for (uint32_t i = 0; i < 4 * 4 * 3 * 4 * 3; i++) {
        uint32_t kind = i / 4 % 4, subwords = i / 48 % 4;
        k = (Fake){ .loss = 1 + (int)(i % 4), .dim = (int[]){ 7, 16, 20 }[i % 3], .bucket = 31, .word_ngram = 1 + (int)(i / 16 % 3),
                    .minn = (int[]){ 0, 1, 2, 3 }[subwords], .maxn = (int[]){ 0, 3, 4, 6 }[subwords],
                    .kept = (int[]){ -1, 9, 0 }[i / 192] };
        fake_fill(&k, i, kind > 0, kind == 2, kind == 3);
        model_compare(&k, i);
    }
}

static Fake *usual(int loss)
{
    static Fake k;
    k = (Fake){ .loss = loss, .dim = 16, .bucket = 31, .word_ngram = 2, .minn = 2, .maxn = 4, .kept = -1 };
    fake_fill(&k, 5, false, false, false);
    return &k;
}

/* More words than the cache holds change nothing. */
static void many_words(void **state)
{
    (void)state;
    Opened o = fake_open(usual(3));
    const char *text = "och det hus en_ganska_l\xC3\xA5ng_sammans\xC3\xA4ttning";
    LangidGuess before[5], after[5], any;
    char word[32];
    assert_int_equal(langid_guess(o.langid, o.space, text, (int64_t)strlen(text), before, 5), 5);
    for (int i = 0; i < 400000; i++) langid_guess(o.langid, o.space, word, snprintf(word, sizeof word, "w%d", i * 7), &any, 1);
    assert_int_equal(langid_guess(o.langid, o.space, text, (int64_t)strlen(text), after, 5), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(before[i].label, after[i].label);
        assert_true(before[i].probability == after[i].probability);
    }
    opened_close(o);
}

static void labels(void **state)
{
    (void)state;
    Opened o = fake_open(usual(1));
    LangidGuess guess[9];
    assert_int_equal(langid_labels(o.langid), 5);
    assert_string_equal(langid_label(o.langid, 0), "__label__sv");
    assert_string_equal(langid_label(o.langid, 4), "__label__fi");
    assert_int_equal(langid_guess(o.langid, o.space, "x", 1, guess, 9), 5);
    assert_int_equal(langid_guess(o.langid, o.space, "x", 1, guess, 0), 0);
    for (int i = 1; i < 5; i++) assert_true(guess[i].probability <= guess[i - 1].probability);
    opened_close(o);
}

/* Where all labels tie, their order is that of fastText 0.9.2's heap, by its own tool on this model. */
static void ties(void **state)
{
    (void)state;
    static const int want[5][5] = { { 4 }, { 4, 3 }, { 4, 1, 3 }, { 3, 1, 4, 2 }, { 3, 1, 4, 2, 0 } };
    for (int loss = 2; loss <= 4; loss++) {
        Fake *k = usual(loss);
        memset(k->output.dense, 0, sizeof k->output.dense);
        Opened o = fake_open(k);
        for (int most = 1; most <= 5; most++) {
            LangidGuess guess[5];
            assert_int_equal(langid_guess(o.langid, o.space, "och", 3, guess, most), most);
            for (int i = 0; i < most; i++) assert_int_equal(guess[i].label, want[most - 1][i]);
        }
        opened_close(o);
    }
}

/* In a tree whose right children all have probability 1 - 6e-6, labels two steps to the left are pruned, as
 * in fastText. */
static void branches_pruned(void **state)
{
    (void)state;
    Fake *k = usual(1);
    LangidGuess guess[5];
    for (int i = 0; i < k->input.rows * k->dim; i++) k->input.dense[i] = 10;
    for (int i = 0; i < 5 * k->dim; i++) k->output.dense[i] = 0.075f;
    Opened o = fake_open(k);
    assert_int_equal(langid_guess(o.langid, o.space, "och", 3, guess, 5), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(guess[i].label, ((int[]){ 1, 3, 0 })[i]);
    opened_close(o);
}

/* Version 11 uses no subwords, whatever the file declares. Then unknown words have no row, and the end may
 * have none. */
static void version_11(void **state)
{
    (void)state;
    static FakeFile file;
    Fake *k = usual(3);
    k->word_ngram = 1;
    k->word[0] = "end";
    put_fake(&file, k);
    file.data[4] = 11;
    fake_write(path_of(), file.data, file.bytes);
    Opened o;
    LangidGuess guess;
    assert_int_equal(langid_open(&o.langid, path_of()), OK);
    assert_int_equal(langid_space_open(&o.space, o.langid), OK);
    assert_int_equal(langid_guess(o.langid, o.space, "hus", 3, &guess, 1), 0);
    assert_int_equal(langid_guess(o.langid, o.space, "", 0, &guess, 1), 0);
    assert_int_equal(langid_guess(o.langid, o.space, "och", 3, &guess, 1), 1);
    opened_close(o);
    unlink(path_of());
}

/* ---- fastText's own output ---- */

/* A line of that output: labels and probabilities */
static bool line_agrees(const Langid *l, char *want, const LangidGuess *got, int guesses, double *most)
{
    int i = 0;
    char *rest;
    for (char *label = strtok_r(want, " \n", &rest); label; label = strtok_r(NULL, " \n", &rest), i++) {
        double probability = fmin(1, strtod(strtok_r(NULL, " \n", &rest), NULL));
        if (i >= guesses || strcmp(label, langid_label(l, got[i].label))) return false;
        *most = fmax(*most, fabs(probability - (double)got[i].probability));
    }
    return i == guesses;
}

static void reference_compare(const char *name, FILE *texts)
{
    char path[512], *text = NULL, *want = NULL;
    size_t text_capacity = 0, want_capacity = 0;
    Opened o;
    double most = 0;
    int64_t lines = 0;
    snprintf(path, sizeof path, SHARED "%s", name);
    assert_int_equal(langid_open(&o.langid, path), OK);
    assert_int_equal(langid_space_open(&o.space, o.langid), OK);
    snprintf(path, sizeof path, SHARED "ref.%s.k3.txt", name);
    FILE *wanted = fopen(path, "r");
    assert_non_null(wanted);
    rewind(texts);
    for (ssize_t bytes; (bytes = getline(&text, &text_capacity, texts)) > 0; lines++) {
        LangidGuess guess[3];
        assert_true(getline(&want, &want_capacity, wanted) > 0);
        const char *begin = strchr(text, ' ') + 1;                  /* after the expected label */
        int guesses = langid_guess(o.langid, o.space, begin, bytes - (begin - text) - 1, guess, 3);
        if (!line_agrees(o.langid, want, guess, guesses, &most)) fail_msg("%s: line %" PRId64 " has other labels", name, lines + 1);
    }
    print_message("%s: %" PRId64 " lines, the same labels, probabilities within %.1e\n", name, lines, most);
    assert_int_equal(lines, 12944);
    assert_true(most < 2e-5);
    fclose(wanted);
    free(text);
    free(want);
    opened_close(o);
}

static void references(void **state)
{
    (void)state;
    FILE *texts = fopen(SHARED "test.txt", "r");
    if (!texts) {
        print_message("no ../shared/data/langid: nothing to compare with\n");
        skip();
    }
    reference_compare("lid_hs.bin", texts);
    reference_compare("lid_hs.ftz", texts);
    reference_compare("lid_softmax_wn2.bin", texts);
    fclose(texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind), cmocka_unit_test(many_words), cmocka_unit_test(labels),
        cmocka_unit_test(ties), cmocka_unit_test(branches_pruned),
        cmocka_unit_test(version_11), cmocka_unit_test(references),
    };
    return cmocka_run_group_tests_name("text/fasttext", tests, NULL, NULL);
}
