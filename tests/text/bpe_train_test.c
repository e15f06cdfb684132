/* The BPE trainer: against a naive one, against Hugging Face's merges (tests/golden/text, and Swedish novels
 * where ../shared is), with any number of threads; GPT-2's pretokens; the tokenizer.json. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/testing.h"
#include "text/bpe/bpe_train.h"
#include "text/pretokenize/pretoken.h"

#define SHARED TESTS_DIR "/../../shared/data/"
#define GOLDEN TESTS_DIR "/golden/text/"

static Team *team_of(int threads)
{
    Team *team;
    assert_int_equal(team_open(&team, threads), OK);
    return team;
}

static BpePlan plan_of(Team *team, int64_t vocabulary, const char **special, int specials)
{
    return (BpePlan){.vocabulary = vocabulary,
                     .least      = 2,
                     .special    = special,
                     .specials   = specials,
                     .team       = team};
}

/* ---- words ---- */

static void assert_words(const char *text, const char *joined)
{
    char said[512] = "";
    int64_t bytes = (int64_t)strlen(text);
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = pretoken_next(PRETOKEN_GPT2, (const uint8_t *)text + at, bytes - at);
        assert_true(n > 0 && n <= bytes - at);
        sprintf(said + strlen(said), "%s%.*s", at ? "|" : "", (int)n, text + at);
    }
    assert_string_equal(said, joined);
}

static void words_are_gpt2s(void **state)
{
    (void)state;
    assert_words("Hello world", "Hello| world");
    assert_words("don't 'tis we'll I'VE", "don|'t| '|tis| we|'ll| I|'|VE");
    assert_words("'tis", "'t|is");
    assert_words("a  b   \n c\n\n", "a| | b|   \n| c|\n\n");
    assert_words("a\nb\tc ", "a|\n|b|\t|c| ");
    assert_words("x12\xC2\xBD, 3.5", "x|12\xC2\xBD|,| 3|.|5");
    assert_words("e\xCC\x81t", "e|\xCC\x81|t");                                  /* a mark is not a letter */
    assert_words("\xC3\xA5\xC3\x84 \xD0\x96!?", "\xC3\xA5\xC3\x84| \xD0\x96|!?");
    assert_words("a\xC2\xA0"
                 "b",
                 "a|\xC2\xA0|b"); /* a space that joins no word */
    assert_words("a\xE1\xA0\x8E" "b", "a|\xE1\xA0\x8E|b");                       /* U+180E is not white space */
    assert_words("\xF0\x90\x8C\xB0x\xF0\x9F\x98\x80", "\xF0\x90\x8C\xB0x|\xF0\x9F\x98\x80");
    assert_words("a\xFF\xC3", "a|\xFF\xC3");
    assert_words(" ", " ");
    assert_words("  ", "  ");
    assert_words("  '", " | '");
}

/* ---- a naive trainer: recounts all pairs for each merge ---- */

enum { NAIVE_IDS = 400, NAIVE_WORDS = 64, NAIVE_LETTERS = 24 };

typedef struct { int32_t letter[NAIVE_LETTERS]; int length; int64_t count; } NaiveWord;

static bool naive_best(BpeMerge *best, const NaiveWord *word, int words)
{
    static int64_t count[NAIVE_IDS][NAIVE_IDS];
    memset(count, 0, sizeof count);
    for (int i = 0; i < words; i++)
        for (int k = 1; k < word[i].length; k++)
            count[word[i].letter[k - 1]][word[i].letter[k]] += word[i].count;
    int64_t most = 1;
    for (int32_t a = 0; a < NAIVE_IDS; a++)
        for (int32_t b = 0; b < NAIVE_IDS; b++)
            if (count[a][b] > most) most = count[a][b], *best = (BpeMerge){ .left = a, .right = b };
    return most > 1;
}

static void naive_join(NaiveWord *w, BpeMerge m)
{
    int out = 0;
    for (int k = 0; k < w->length; k++) {
        bool here = w->letter[k] == m.left && k + 1 < w->length && w->letter[k + 1] == m.right;
        w->letter[out++] = here ? m.made : w->letter[k];
        k += here;
    }
    w->length = out;
}

/* No letter occurs twice in a word, so no token is made by two different merges, a case in which Hugging
 * Face's trainer counts differently. */
static void a_naive_trainer_agrees(void **state)
{
    (void)state;
    uint32_t random = 5;
    for (int round = 0; round < 20; round++) {
        static NaiveWord word[NAIVE_WORDS];
        static char text[1 << 20];
        char *out = text;
        for (int i = 0; i < NAIVE_WORDS; i++) {
            random = random * 1664525u + 1013904223u;
            word[i] = (NaiveWord){ .length = 2 + (int)(random >> 29), .count = 1 + (random >> 8) % 9 };
            char spelled[NAIVE_LETTERS] = "";
            for (int k = 0; k < word[i].length; k++) {
                random = random * 1664525u + 1013904223u;
                spelled[k]        = k ? (char)('a' + (spelled[k - 1] - 'a' + 1 + (random >> 16) % 3) % 26)
                                      : (char)('a' + (random >> 16) % 26);
                word[i].letter[k] = spelled[k] - 33;
            }
            word[i].letter[0] = 220;                                 /* the leading space */
            spelled[0] = ' ';
            for (int k = 0; k < word[i].count; k++) out = stpcpy(out, spelled);
        }
        Team *team = team_of(1);
        BpePlan plan = plan_of(team, NAIVE_IDS - 1, NULL, 0);
        BpeTrain *train;
        int32_t merges;
        assert_int_equal(bpe_train_open(&train, &plan), OK);
        bpe_train_feed(train, &(TextPiece){ .text = text, .bytes = out - text }, 1);
        bpe_train_merge(train);
        const BpeMerge *merge = bpe_train_merges(train, &merges);
        for (int32_t i = 0; i < merges; i++) {
            BpeMerge best = { 0 };
            assert_true(naive_best(&best, word, NAIVE_WORDS));
            assert_int_equal(merge[i].left, best.left);
            assert_int_equal(merge[i].right, best.right);
            for (int k = 0; k < NAIVE_WORDS; k++) naive_join(&word[k], merge[i]);
        }
        assert_true(merges > 50);
        bpe_train_close(train);
        team_close(team);
    }
}

/* ---- against Hugging Face's trainer ---- */

typedef struct { json_t *line[4096]; TextPiece text[4096]; int count; } Documents;

static void documents_read(Documents *d, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    assert_non_null(f);
    for (d->count = 0; getline(&line, &capacity, f) > 0; d->count++) {
        assert_true(d->count < 4096);
        json_t *text = json_object_get(d->line[d->count] = json_loads(line, 0, NULL), "text");
        d->text[d->count] = (TextPiece){ .text = json_string_value(text), .bytes = (int64_t)json_string_length(text) };
    }
    free(line);
    fclose(f);
}

static void documents_free(Documents *d)
{
    for (int i = 0; i < d->count; i++) json_decref(d->line[i]);
}

/* The file's merges, "left right" a line */
static json_t *trained(const Documents *d, int threads, int64_t vocabulary, const char **special,
                       int specials)
{
    char path[64];
    Team *team = team_of(threads);
    BpePlan plan = plan_of(team, vocabulary, special, specials);
    BpeTrain *train;
    snprintf(path, sizeof path, "/tmp/bpe_train_test.%d.json", (int)getpid());
    assert_int_equal(bpe_train_open(&train, &plan), OK);
    bpe_train_feed(train, d->text, d->count / 2);
    bpe_train_feed(train, d->text + d->count / 2, d->count - d->count / 2);
    bpe_train_merge(train);
    assert_int_equal(bpe_train_write(train, path), OK);
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(file);
    assert_int_equal(json_object_size(json_object_get(json_object_get(file, "model"), "vocab")),
                     bpe_train_ids(train));
    remove(path);
    bpe_train_close(train);
    team_close(team);
    return file;
}

static json_int_t id_in(json_t *file, const char *token)
{
    json_t *id = json_object_get(json_object_get(json_object_get(file, "model"), "vocab"), token);
    return id ? json_integer_value(id) : -1;
}

static void goldens_agree(void **state)
{
    (void)state;
    static Documents d;
    static const char *special[] = { "<|endoftext|>", "<pad>" };
    documents_read(&d, GOLDEN "train.jsonl");
    for (int threads = 1; threads <= 4; threads++) {
        json_t *file = trained(&d, threads, 600, special, 2), *merge;
        char  line[256], said[256];
        size_t i;
        FILE *want = fopen(GOLDEN "train.merges.txt", "r");
        assert_non_null(want);
        json_array_foreach(json_object_get(json_object_get(file, "model"), "merges"), i, merge) {
            assert_non_null(fgets(line, sizeof line, want));
            snprintf(said, sizeof said, "%s %s\n", json_string_value(json_array_get(merge, 0)),
                     json_string_value(json_array_get(merge, 1)));
            assert_string_equal(said, line);
        }
        assert_null(fgets(line, sizeof line, want));
        assert_int_equal(id_in(file, "<|endoftext|>"), 0);
        assert_int_equal(id_in(file, "<pad>"), 1);
        assert_int_equal(id_in(file, "!"), 2);
        assert_int_equal(id_in(file, "\xC5\x83"), 257);                          /* U+0143, the last of 256 */
        json_decref(file);
        fclose(want);
    }
    documents_free(&d);
}

/* 25 MB of novels: too many merges to keep here, so their number and FNV-1a hash are compared. */
static void swedish_merges_agree(void **state)
{
    (void)state;
    static Documents d;
    static const char *special[] = { "<|endoftext|>" };
    if (!file_exists(SHARED "eltec/sv.chapters.jsonl")) skip();
    size_t   want_count, i;
    uint64_t want_hash, hash = 14695981039346656037u;
    FILE *golden = fopen(GOLDEN "train.eltec.txt", "r");
    assert_non_null(golden);
    assert_int_equal(fscanf(golden, "%zu %" SCNx64, &want_count, &want_hash), 2);
    fclose(golden);
    documents_read(&d, SHARED "eltec/sv.chapters.jsonl");
    json_t *file = trained(&d, 2, 32000, special, 1), *merge;
    json_t *merges = json_object_get(json_object_get(file, "model"), "merges");
    assert_int_equal(json_array_size(merges), want_count);
    json_array_foreach(merges, i, merge) {
        char line[2048];
        snprintf(line, sizeof line, "%s %s\n", json_string_value(json_array_get(merge, 0)),
                 json_string_value(json_array_get(merge, 1)));
        for (const char *p = line; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    }
    assert_true(hash == want_hash);
    json_decref(file);
    documents_free(&d);
}

/* ---- plans ---- */

static void assert_refused(int64_t vocabulary, const char **special, int specials, const char *says)
{
    Team *team = team_of(1);
    BpePlan plan = plan_of(team, vocabulary, special, specials);
    BpeTrain *train;
    assert_int_equal(bpe_train_open(&train, &plan), BAD_OPTION);
    assert_null(train);
    assert_contains(fail_text(), says);
    team_close(team);
}

static void bad_plans_are_refused(void **state)
{
    (void)state;
    assert_refused(256, (const char *[]){"<s>"}, 1,
                   "--vocab-size 256: 256 bytes and 1 special tokens are 257 ids");
    assert_refused(300, (const char *[]){ "<s>", "<s>" }, 2, "<s> is given twice");
    assert_refused(300, (const char *[]){ "a" }, 1, "is one byte");
    assert_refused(300, (const char *[]){ "\xFF" }, 1, "is not UTF-8 text");
}

static void corners_hold(void **state)
{
    (void)state;
    static const char *special[] = { "ab", "\"\\\n\xE2\x82\xAC" };
    static Documents d = { .count = 2, .text = { { "abab abab", 9, 0 }, { "", 0, 0 } } };
    json_t *file = trained(&d, 2, 1000, special, 2);
    assert_int_equal(id_in(file, "ab"), 0);                    /* a special token may be what a merge makes */
    assert_int_equal(id_in(file, special[1]), 1);
    assert_int_equal(id_in(file, "abab"), 258);
    json_decref(file);
    d.count = 0;
    file = trained(&d, 1, 1000, NULL, 0);                      /* no text: only the bytes */
    assert_int_equal(json_array_size(json_object_get(json_object_get(file, "model"), "merges")), 0);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_gpt2s),
        cmocka_unit_test(a_naive_trainer_agrees),
        cmocka_unit_test(goldens_agree),
        cmocka_unit_test(swedish_merges_agree),
        cmocka_unit_test(bad_plans_are_refused),
        cmocka_unit_test(corners_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
