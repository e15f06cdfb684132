/* sentencepiece models: small ones written here by a few lines of protocol buffers, those of
 * tests/golden/text made with the library, and larger ones of ../shared where it is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/file.h"
#include "base/testing.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/sentencepiece/sentencepiece_model.h"

#define SHARED TESTS_DIR "/../../shared/data/"
#define GOLDEN TESTS_DIR "/golden/text/"

/* ---- a writer of models ---- */

typedef struct { char data[65536]; size_t bytes; } Message;

static void put_varint(Message *m, uint64_t value)
{
    for (; value > 127; value >>= 7) m->data[m->bytes++] = (char)(value | 128);
    m->data[m->bytes++] = (char)value;
}

static void put_number(Message *m, int field, uint64_t value)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, value);
}

static void put_text(Message *m, int field, const void *text, size_t bytes)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, bytes);
    memcpy(m->data + m->bytes, text, bytes);
    m->bytes += bytes;
}

static void put_piece_bytes(Message *m, const char *text, size_t bytes, float score, int kind)
{
    Message piece = { .bytes = 0 };
    put_text(&piece, 1, text, bytes);
    put_varint(&piece, 2 << 3 | 5);
    memcpy(piece.data + piece.bytes, &score, 4);
    piece.bytes += 4;
    if (kind != SP_PIECE_NORMAL) put_number(&piece, 3, (uint64_t)kind);
    put_text(m, 1, piece.data, piece.bytes);
}

static void put_piece(Message *m, const char *text, float score, int kind)
{
    put_piece_bytes(m, text, strlen(text), score, kind);
}

static void put_trainer(Message *m, int kind, bool byte_fallback)
{
    Message spec = { .bytes = 0 };
    put_number(&spec, 3, (uint64_t)kind);
    put_number(&spec, 4, 99);                          /* an unknown field */
    put_number(&spec, 35, byte_fallback);
    put_text(m, 2, spec.data, spec.bytes);
}

static void put_specials(Message *m)
{
    put_piece(m, "<unk>", 0, SP_PIECE_UNKNOWN);           /* 0 */
    put_piece(m, "<s>", 0, SP_PIECE_CONTROL);             /* 1 */
    put_piece(m, "</s>", 0, SP_PIECE_CONTROL);            /* 2 */
}

static const char *model_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/sentencepiece_test.%d.model", (int)getpid());
    return path;
}

static Status message_open(Tokenizer *t, const Message *m)
{
    FILE *f = fopen(model_path(), "wb"); /* without the fsync of file_write_whole, because there are thousands */
    assert_non_null(f);
    fwrite(m->data, 1, m->bytes, f);
    fclose(f);
    Status status = sentencepiece_open(t, model_path());
    remove(model_path());
    return status;
}

static void assert_ids(const Tokenizer *t, const char *text, size_t bytes, const char *ids)
{
    int32_t got[256];
    char    said[2048] = "";
    assert_true(t->max_ids(t, text, (int64_t)bytes) <= 256);
    int64_t count = t->encode(t, got, text, (int64_t)bytes);
    for (int64_t i = 0; i < count; i++) sprintf(said + strlen(said), "%s%d", i ? " " : "", got[i]);
    assert_string_equal(said, ids);
}
#define assert_encodes(t, text, ids) assert_ids(t, text, strlen(text), ids)

static void assert_decodes(const Tokenizer *t, const int32_t *ids, int64_t count, const char *text)
{
    char said[1024];
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        TextPiece p = t->decode(t, ids[i]);
        memcpy(said + at, p.text, (size_t)p.bytes);
        at += p.bytes;
    }
    said[at] = 0;
    assert_string_equal(said, text);
}

/* ---- small models ---- */

#define MARK "\xE2\x96\x81"
static void small_bpe(Message *m, int unused)
{
    m->bytes = 0;
    put_specials(m);
    put_piece(m, "ab", 0, SP_PIECE_NORMAL);               /* 3 */
    put_piece(m, MARK "a", -1, SP_PIECE_NORMAL);          /* 4 */
    put_piece(m, "abb", -2, unused);                   /* 5 */
    put_piece(m, "a", -3, SP_PIECE_NORMAL);               /* 6 */
    put_piece(m, "b", -4, SP_PIECE_NORMAL);               /* 7 */
    put_piece(m, MARK, -5, SP_PIECE_NORMAL);              /* 8 */
    put_piece(m, "<xy>", 0, SP_PIECE_USER);              /* 9 */
    put_trainer(m, SP_MODEL_BPE, false);
}

static void bpe_joins_by_score(void **state)
{
    (void)state;
    Message m;
    Tokenizer t;
    small_bpe(&m, SP_PIECE_NORMAL);
    assert_int_equal(message_open(&t, &m), OK);
    assert_int_equal(t.vocabulary, 10);
    assert_int_equal(t.eod, 2);
    assert_true(t.drops_prefixes);
    assert_encodes(&t, "a", "4");
    assert_encodes(&t, "abb", "8 5");                  /* ab before _a */
    assert_encodes(&t, "  aab  ab ", "4 3 8 3");       /* leftmost; spaces at ends and doubled are dropped */
    assert_encodes(&t, "", "");
    assert_encodes(&t, "   ", "");
    assert_encodes(&t, "zzb\xFFz", "8 0 7 0");         /* neighbouring unknowns are one */
    assert_encodes(&t, "a<xy>b", "4 9 7");
    assert_encodes(&t, "<s>", "8 0");                  /* control pieces are never in a text */
    assert_decodes(&t, (int32_t[]){ 1, 4, 9, 0, 7, 2 }, 6, " a<xy> \xE2\x81\x87 b");
    tokenizer_close(&t);
}

static void unused_pieces_fall_apart(void **state)
{
    (void)state;
    Message m;
    Tokenizer t;
    small_bpe(&m, SP_PIECE_UNUSED);
    assert_int_equal(message_open(&t, &m), OK);
    assert_encodes(&t, "abb abb", "8 3 7 8 3 7");
    tokenizer_close(&t);
}

static void unigram_takes_the_best_sum(void **state)
{
    (void)state;
    Message m = { .bytes = 0 };
    Tokenizer t;
    put_specials(&m);
    put_piece(&m, MARK, -1, SP_PIECE_NORMAL);             /* 3 */
    put_piece(&m, "a", -3, SP_PIECE_NORMAL);              /* 4 */
    put_piece(&m, "ab", -3.5f, SP_PIECE_NORMAL);          /* 5 */
    put_piece(&m, "bc", -3.25f, SP_PIECE_NORMAL);         /* 6 */
    put_piece(&m, "c", -4, SP_PIECE_NORMAL);              /* 7 */
    put_piece(&m, "cab", -20, SP_PIECE_USER);             /* 8: always taken where it can be */
    put_piece(&m, "abc", -1, SP_PIECE_UNUSED);            /* 9 */
    put_piece(&m, "x", -8, SP_PIECE_NORMAL);              /* 10 */
    put_piece(&m, "yz", -8, SP_PIECE_NORMAL);             /* 11 */
    put_piece(&m, "xy", -1, SP_PIECE_NORMAL);             /* 12 */
    put_trainer(&m, SP_MODEL_UNIGRAM, false);
    assert_int_equal(message_open(&t, &m), OK);
    assert_encodes(&t, "abc", "3 4 6");                /* a bc -6.25, ab c -7.5, abc unused */
    assert_encodes(&t, "cab", "3 8");
    assert_encodes(&t, "xyz", "3 10 11"); /* -16; xy and an unknown z -19, since that is 10 below the least */
    assert_encodes(&t, "b\xC3\xA9", "3 0");
    tokenizer_close(&t);
}

/* The longer of two user-defined pieces, where the scores beside them are equal */
static void longer_user_pieces_win(void **state)
{
    (void)state;
    Message m = { .bytes = 0 };
    Tokenizer t;
    put_specials(&m);
    put_piece(&m, MARK, -1, SP_PIECE_NORMAL);             /* 3 */
    put_piece(&m, "a", -3, SP_PIECE_NORMAL);              /* 4 */
    put_piece(&m, "cd", -3, SP_PIECE_NORMAL);             /* 5 */
    put_piece(&m, "ab", 0, SP_PIECE_USER);                /* 6 */
    put_piece(&m, "bcd", 0, SP_PIECE_USER);               /* 7 */
    put_trainer(&m, SP_MODEL_UNIGRAM, false);
    assert_int_equal(message_open(&t, &m), OK);
    assert_encodes(&t, "abcd", "3 4 7");
    tokenizer_close(&t);
}

/* ab c is better than a bc by 0.002, which a float above 65,536 cannot represent; above
 * 100,000 sums are rebased, as in version 0.2.3. */
static void large_sums_begin_anew(void **state)
{
    (void)state;
    static const struct { int before; bool exact; } row[] = {
        { 10, true }, { 60, false }, { 99, false }, { 100, true }, { 110, true }, { 150, false }, { 190, false }, { 200, true },
    };
    Message m = { .bytes = 0 };
    Tokenizer t;
    put_specials(&m);
    put_piece(&m, MARK, -1, SP_PIECE_NORMAL);             /* 3 */
    put_piece(&m, "x", -1000, SP_PIECE_NORMAL);           /* 4 */
    put_piece(&m, "ab", -8.649f, SP_PIECE_NORMAL);        /* 5 */
    put_piece(&m, "c", -5.366f, SP_PIECE_NORMAL);         /* 6 */
    put_piece(&m, "a", -4.435f, SP_PIECE_NORMAL);         /* 7 */
    put_piece(&m, "bc", -9.582f, SP_PIECE_NORMAL);        /* 8 */
    put_piece(&m, "b", -50, SP_PIECE_NORMAL);             /* 9 */
    put_trainer(&m, SP_MODEL_UNIGRAM, false);
    assert_int_equal(message_open(&t, &m), OK);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char    text[256];
        int32_t ids[256];
        int     n = row[i].before;
        memset(text, 'x', (size_t)n);
        strcpy(text + n, "abcabc");
        assert_int_equal(t.encode(&t, ids, text, n + 6), n + 5);
        for (int k = 0; k < 4; k++) assert_int_equal(ids[n + 1 + k], row[i].exact ? 5 + k % 2 : 7 + k % 2);
    }
    tokenizer_close(&t);
}

static void unknown_text_becomes_bytes(void **state)
{
    (void)state;
    Message m = { .bytes = 0 };
    Tokenizer t;
    put_specials(&m);
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        sprintf(name, "<0x%02X>", byte);
        put_piece(&m, name, 0, SP_PIECE_BYTE);
    }
    put_piece(&m, MARK, -1, SP_PIECE_NORMAL);             /* 259 */
    for (int kind = SP_MODEL_UNIGRAM; kind <= SP_MODEL_BPE; kind++) {
        size_t mark = m.bytes;
        put_trainer(&m, kind, true);
        assert_int_equal(message_open(&t, &m), OK);
        assert_encodes(&t, "a\xC3\xA5", "259 100 198 168");
        assert_decodes(&t, (int32_t[]){ 259, 100, 198, 168 }, 4, " a\xC3\xA5");
        assert_ids(&t, "\0", 1, "259 3");
        tokenizer_close(&t);
        m.bytes = mark;
    }
    m.bytes -= 12; /* removes a piece: there are 255 bytes */
    put_specials(&m);
    put_trainer(&m, SP_MODEL_BPE, true);
    assert_int_equal(message_open(&t, &m), BAD_FILE);
}

/* ---- what is not a model ---- */

static void strangers_are_refused(void **state)
{
    (void)state;
    Tokenizer t;
    Message m = { .bytes = 0 };
    assert_int_equal(sentencepiece_open(&t, "/nowhere.model"), BAD_FILE);
    assert_int_equal(message_open(&t, &m), BAD_FILE);
    assert_contains(fail_text(), "no pieces");
    put_piece(&m, "a", 0, SP_PIECE_NORMAL);
    assert_int_equal(message_open(&t, &m), BAD_FILE);
    assert_contains(fail_text(), "no piece is the unknown piece");
    put_specials(&m);
    put_piece(&m, "a", 0, SP_PIECE_NORMAL);
    assert_int_equal(message_open(&t, &m), BAD_FILE);
    assert_contains(fail_text(), "pieces 0 and 4 are the same, \"a\"");
    static const struct { float score; int kind; const char *says;
    } bad[] = {
        {NAN, SP_PIECE_NORMAL, "a score that is not finite"},
        {INFINITY, SP_PIECE_NORMAL, "a score that is not finite"},
        {0, 7, "a piece of unknown kind"},
        {0, SP_PIECE_UNKNOWN, "both the unknown piece"},
        {0, SP_PIECE_BYTE, "a byte, but its name is not"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        m.bytes = 0;
        put_specials(&m);
        put_piece(&m, "z", bad[i].score, bad[i].kind);
        assert_int_equal(message_open(&t, &m), BAD_FILE);
        assert_contains(fail_text(), bad[i].says);
    }
    m.bytes = 0;
    put_specials(&m);
    put_trainer(&m, SP_MODEL_WORD, false);
    assert_int_equal(message_open(&t, &m), BAD_FILE);
    assert_contains(fail_text(), "a model of words");
}

/* A model truncated anywhere, or with any byte changed: refused, or open and safe to use */
static void broken_models_do_no_harm(void **state)
{
    (void)state;
    static Message whole, m;
    Tokenizer t;
    int32_t ids[512];
    FileMap map;
    const char *text = "Hello \xEF\xBC\xA1 <xy>\xC3\xA9 world";
    small_bpe(&whole, SP_PIECE_UNUSED);
    for (int golden = 0; golden < 2; golden++) {
        if (golden) {
            assert_int_equal(file_map(&map, GOLDEN "unigram.model"), OK);
            assert_true(map.size < sizeof whole.data);
            memcpy(whole.data, map.data, whole.bytes = map.size);
            file_unmap(&map);
        }
        uint32_t random = 1;
        for (int i = 0; i < 2000; i++) {
            m.bytes = whole.bytes;
            memcpy(m.data, whole.data, whole.bytes);
            for (int k = 0; k < 1 + i % 3; k++) {
                random = random * 1664525u + 1013904223u;
                m.data[(random >> 8) % m.bytes] = (char)(random >> 3);
            }
            if (i % 4 == 0) m.bytes = (random >> 8) % m.bytes;
            if (message_open(&t, &m) != OK) continue;
            if (t.max_ids(&t, text, (int64_t)strlen(text)) <= 512)
                t.encode(&t, ids, text, (int64_t)strlen(text));
            for (int id = 0; id < t.vocabulary; id++) t.decode(&t, id);
            tokenizer_close(&t);
        }
    }
}

/* A normalizer whose table points outside itself or has a cycle */
static void wild_normalizers_do_no_harm(void **state)
{
    (void)state;
    static char charsmap[4 + 2048 + 4];
    uint32_t random = 7, size = 2048;
    for (int round = 0; round < 200; round++) {
        Message m, spec = { .bytes = 0 };
        Tokenizer t;
        int32_t ids[512];
        small_bpe(&m, SP_PIECE_NORMAL);
        memcpy(charsmap, &size, 4);
        for (size_t i = 4; i < sizeof charsmap - 1; i++) {
            random = random * 1664525u + 1013904223u;
            charsmap[i] = round % 2 ? (char)(random >> 24) : (char)(i % 4 == 1 ? 1 : 'a');
        }
        put_text(&spec, 2, charsmap, sizeof charsmap);
        put_text(&m, 3, spec.data, spec.bytes);
        assert_int_equal(message_open(&t, &m), OK);
        if (t.max_ids(&t, "aaaaabbbbcc", 11) < 512) t.encode(&t, ids, "aaaaabbbbcc", 11);
        tokenizer_close(&t);
    }
}

/* ---- against the library ---- */

static void assert_line_ids(const Tokenizer *t, const char *file, int line, const char *text, size_t bytes,
                            const char *want)
{
    int64_t  most = t->max_ids(t, text, (int64_t)bytes);
    int32_t *ids = malloc((size_t)(most + 1) * sizeof *ids);
    int64_t  count = t->encode(t, ids, text, (int64_t)bytes);
    assert_true(count <= most);
    for (int64_t i = 0; i < count; i++) {
        char *end;
        long id = strtol(want, &end, 10);
        if (end == want || id != ids[i])
            fail_msg("%s:%d: id %d at place %" PRId64 ", not %.20s", file, line, ids[i], i, want);
        want = end;
    }
    while (*want == ' ') want++;
    if (*want != '\n' && *want != 0) fail_msg("%s:%d: ends before %.20s", file, line, want);
    free(ids);
}

static void assert_file_ids(const char *model, const char *texts, const char *ids)
{
    Tokenizer t;
    char  *text = NULL, *want = NULL;
    size_t text_capacity = 0, want_capacity = 0;
    FILE  *f = fopen(texts, "r"), *g = fopen(ids, "r");
    assert_int_equal(sentencepiece_open(&t, model), OK);
    assert_non_null(f);
    assert_non_null(g);
    int line = 0;
    ssize_t bytes;
    while ((bytes = getline(&text, &text_capacity, f)) > 0) {
        assert_true(getline(&want, &want_capacity, g) > 0);
        if (text[bytes - 1] == '\n') bytes--;
        assert_line_ids(&t, texts, ++line, text, (size_t)bytes, want);
    }
    assert_true(line > 10);
    free(text);
    free(want);
    fclose(f);
    fclose(g);
    tokenizer_close(&t);
}

static void goldens_agree(void **state)
{
    (void)state;
    assert_file_ids(GOLDEN "bpe.model", GOLDEN "texts.txt", GOLDEN "bpe.ids.txt");
    assert_file_ids(GOLDEN "unigram.model", GOLDEN "texts.txt", GOLDEN "unigram.ids.txt");
}

static void swedish_models_agree(void **state)
{
    (void)state;
    if (!file_exists(SHARED "spm/sv_bpe.model")) skip();
    assert_file_ids(SHARED "spm/sv_bpe.model", SHARED "ud/sv_pud.test.txt",
                    SHARED "spm/ref.sv_bpe.sv_pud.id.txt");
    assert_file_ids(SHARED "spm/sv_bpe.model", SHARED "ud/ru_gsd.test.txt",
                    SHARED "spm/ref.sv_bpe.ru_gsd.id.txt");
    assert_file_ids(SHARED "spm/sv_unigram.model", SHARED "ud/sv_pud.test.txt",
                    SHARED "spm/ref.sv_unigram.sv_pud.id.txt");
    assert_file_ids(SHARED "spm/sv_unigram.model", SHARED "ud/ru_gsd.test.txt",
                    SHARED "spm/ref.sv_unigram.ru_gsd.id.txt");
}

/* A line of pieces is the decoded text of each id of the line; unknown text is in it unchanged. */
static void assert_file_pieces(const char *model, const char *texts, const char *pieces)
{
    static char text[65536], want[65536], said[65536];
    static int32_t ids[65536];
    Tokenizer t;
    FILE *f = fopen(texts, "r"), *g = fopen(pieces, "r");
    assert_int_equal(sentencepiece_open(&t, model), OK);
    while (fgets(text, sizeof text, f) && fgets(want, sizeof want, g)) {
        int64_t count = t.encode(&t, ids, text, (int64_t)strcspn(text, "\n"));
        char *word = strtok(want, " \n");
        for (int64_t i = 0; i < count; i++, word = strtok(NULL, " \n")) {
            assert_non_null(word);
            TextPiece p = t.decode(&t, ids[i]);
            char *out = said;
            for (int64_t k = 0; k < p.bytes; k++) {
                if (p.text[k] == ' ') out = stpcpy(out, MARK);
                else *out++ = p.text[k];
            }
            *out = 0;
            bool named = strlen(word) == 6 && word[1] == '0' && word[2] == 'x';      /* a byte, by its name */
            if (ids[i] != 0 && !named) assert_string_equal(said, word);
        }
        assert_null(word);
    }
    fclose(f);
    fclose(g);
    tokenizer_close(&t);
}

static void swedish_pieces_agree(void **state)
{
    (void)state;
    if (!file_exists(SHARED "spm/sv_bpe.model")) skip();
    assert_file_pieces(SHARED "spm/sv_bpe.model", SHARED "ud/sv_pud.test.txt",
                       SHARED "spm/ref.sv_bpe.sv_pud.piece.txt");
    assert_file_pieces(SHARED "spm/sv_unigram.model", SHARED "ud/sv_pud.test.txt",
                       SHARED "spm/ref.sv_unigram.sv_pud.piece.txt");
}

/* decode(encode(x)) is the normalized x, except for the marks. For models with byte fallback */
static void texts_come_back(void **state)
{
    (void)state;
    static const char *models[] = { GOLDEN "bpe.model", GOLDEN "unigram.model" };
    static char text[65536], normal[65536], marked[65536], back[65536];
    static int32_t ids[65536];
    for (int i = 0; i < 2; i++) {
        Tokenizer t;
        FILE *f = fopen(GOLDEN "texts.txt", "r");
        assert_int_equal(sentencepiece_open(&t, models[i]), OK);
        while (fgets(text, sizeof text, f)) {
            int64_t bytes = (int64_t)strcspn(text, "\n"), at = 0;
            normal[sentencepiece_normalize(&t, normal, text, bytes)] = 0;
            int64_t count = t.encode(&t, ids, text, bytes);
            for (int64_t k = 0; k < count; k++) {
                TextPiece p = t.decode(&t, ids[k]);
                memcpy(back + at, p.text, (size_t)p.bytes);
                at += p.bytes;
            }
            char *out = marked;
            for (int64_t k = 0; k < at; k++) {
                if (back[k] == ' ') out = stpcpy(out, MARK);
                else *out++ = back[k];
            }
            *out = 0;
            assert_string_equal(marked, normal);
        }
        fclose(f);
        tokenizer_close(&t);
    }
}

static double seconds_of(const Tokenizer *t, int64_t bytes)
{
    char    *text = malloc((size_t)bytes);
    int32_t *ids  = malloc((size_t)(bytes + 1) * sizeof *ids);
    memset(text, 'a', (size_t)bytes);
    clock_t  then = clock();
    int64_t  count = t->encode(t, ids, text, bytes);
    double   took = (double)(clock() - then) / CLOCKS_PER_SEC;
    int64_t  length = -1;                                      /* the dummy prefix */
    for (int64_t i = 0; i < count; i++) length += t->decode(t, ids[i]).bytes;
    assert_int_equal(length, bytes);
    free(text);
    free(ids);
    return took;
}

/* Quadratic time would be minutes. */
static void a_million_equal_letters(void **state)
{
    (void)state;
    for (int kind = SP_MODEL_UNIGRAM; kind <= SP_MODEL_BPE; kind++) {
        Message m = { .bytes = 0 };
        Tokenizer t;
        char as[] = "aaaaaaaaaaaaaaaa";
        put_specials(&m);
        put_piece(&m, MARK, -9, SP_PIECE_NORMAL);
        for (int length = 16; length > 0; length /= 2)
            put_piece(&m, as + 16 - length, (float)-length, SP_PIECE_NORMAL);
        put_trainer(&m, kind, false);
        assert_int_equal(message_open(&t, &m), OK);
        assert_true(seconds_of(&t, 1000000) < 20);
        tokenizer_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_joins_by_score),
        cmocka_unit_test(unused_pieces_fall_apart),
        cmocka_unit_test(unigram_takes_the_best_sum),
        cmocka_unit_test(longer_user_pieces_win), cmocka_unit_test(large_sums_begin_anew),
        cmocka_unit_test(unknown_text_becomes_bytes),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(broken_models_do_no_harm),
        cmocka_unit_test(wild_normalizers_do_no_harm),
        cmocka_unit_test(goldens_agree),
        cmocka_unit_test(swedish_models_agree),
        cmocka_unit_test(swedish_pieces_agree),
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(a_million_equal_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
