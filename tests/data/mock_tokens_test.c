/* Made tokens: ids below the vocabulary, ends of documents where they belong, the same samples in every order of the data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "data/datasets.h"
#include <cmocka.h>

static void documents(void **state)
{
    (void)state;
    static const struct { int64_t vocabulary; int32_t eod; } cases[] = { { 257, 256 }, { 100, 0 }, { 2, 1 }, { 1, 0 }, { 50257, -1 }, { 61, 30 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        TokenFile t;
        token_file_mock(&t, cases[c].vocabulary, cases[c].eod);
        int64_t ids = cases[c].vocabulary - (cases[c].eod >= 0);
        for (int64_t d = 0; d < 40; d++) {
            int64_t start = token_file_start(&t, d), n = token_file_length(&t, d);
            assert_int_equal(token_file_document(&t, d), d);
            assert_int_equal(token_file_start(&t, d + 1), start + n);
            for (int64_t i = 0; i < n; i++) {
                int32_t token = token_file_token(&t, start + i);
                assert_true(token >= 0 && token < cases[c].vocabulary);
                if (ids > 0) assert_int_equal(token == cases[c].eod, cases[c].eod >= 0 && i == n - 1);
            }
        }
        if (ids > 2) assert_int_not_equal(token_file_token(&t, 0), token_file_token(&t, token_file_length(&t, 0)));
        assert_int_equal(token_file_start(&t, t.sequences - 1) + token_file_length(&t, 0), t.tokens);
        token_file_close(&t);
    }
}

/* Loaders of all orders read it, and its fingerprint names it. */
static void orders(void **state)
{
    (void)state;
    Arena host;
    assert_int_equal(arena_open(&host, "host", 1 << 20), OK);
    LoaderConfig config = { .sequence = 512, .micro = 2, .global = 2, .dp = 1, .cp = 1, .seed = 3, .eod = 256, .loss_weight = F32 };
    for (OrderKind order = ORDER_JOTUN; order <= ORDER_FORKS; order++) {
        Datasets datasets;
        Loader loader;
        const char *text;
        DatasetsPlan plan = { .rules = { .order = order, .mock = 257, .mock_eod = 256, .final_epoch_cut = 0.8 }, .split = "90,10,0", .wanted = { 64, 8, 8 } };
        assert_int_equal(datasets_open(&datasets, &plan), OK);
        assert_int_equal(datasets_loader(&datasets, &loader, SPLIT_VALID, config), OK);
        size_t mark = arena_mark(&host);
        Batch batch = loader_batch_new(&config, &host);
        assert_int_equal(loader_fill(&loader, &batch, 6, 0, 257), OK);
        const int32_t *token = batch.token_i.data, *target = batch.target_i.data;
        for (int i = 0; i < 511; i++) assert_int_equal(target[i], token[i + 1]);
        assert_int_equal(datasets_fingerprints(&datasets, &text), OK);
        assert_string_equal(text, "mock data\tmade tokens of 257 ids\n");
        arena_reset(&host, mark);
        datasets_close(&datasets);
    }
    arena_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(documents), cmocka_unit_test(orders) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
