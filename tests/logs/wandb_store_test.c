/* Records of all lengths around a block, at all places around its end, are read back as they were written; a
 * file that is cut or damaged is read up to that place and not beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "logs/wandb_store.h"

enum { BLOCK = 32768, LONGEST = 2 * BLOCK + 40 };
static uint8_t text[LONGEST];

static void fill(void)
{
    for (size_t i = 0; i < LONGEST; i++) text[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void put(Bytes *file, size_t size) { wandb_store_add(file, file->size, text, size); }

static bool got(const Bytes *file, size_t *at, size_t size)
{
    Bytes record = { 0 };
    bool found = wandb_store_next(&record, file->data, file->size, at);
    bool same = found && record.size == size && (size == 0 || memcmp(record.data, text, size) == 0);
    bytes_free(&record);
    return same;
}

/* A first record that ends `before` bytes from the end of the block, then the one that is looked at. */
static void test_around_the_end(void **state)
{
    static const size_t sizes[] = { 0, 1, 6, 7, 8, 100, BLOCK - 15, BLOCK - 14, BLOCK - 7, BLOCK, LONGEST };
    (void)state;
    fill();
    for (size_t before = 0; before < 24; before++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t first = BLOCK - WANDB_STORE_HEADER - 7 - before, at = WANDB_STORE_HEADER;
            Bytes file = { 0 };
            wandb_store_header(&file);
            put(&file, first);
            put(&file, sizes[i]);
            put(&file, 3);
            assert_true(got(&file, &at, first));
            assert_true(got(&file, &at, sizes[i]));
            assert_true(got(&file, &at, 3));
            assert_int_equal(at, file.size);
            assert_false(got(&file, &at, 0));
            bytes_free(&file);
        }
}

/* The end of the last whole record is told, wherever the file ends or a byte is changed. */
static void test_damaged(void **state)
{
    Bytes file = { 0 }, record = { 0 };
    size_t end[4];
    (void)state;
    fill();
    wandb_store_header(&file);
    for (int i = 0; i < 4; i++) {
        end[i] = file.size;
        put(&file, (size_t)(40 * i + 1));
    }
    for (size_t size = WANDB_STORE_HEADER; size <= file.size; size++) {
        size_t at = WANDB_STORE_HEADER, whole = 0;
        for (int i = 1; i < 4; i++)
            if (size >= end[i]) whole = end[i];
        while (wandb_store_next(&record, file.data, size, &at)) assert_true(at <= size);
        assert_true(at == (size == file.size ? file.size : whole ? whole : WANDB_STORE_HEADER));
    }
    for (size_t place = WANDB_STORE_HEADER; place < file.size; place++)
        for (int bit = 0; bit < 8; bit++) {
            size_t at = WANDB_STORE_HEADER, last = 0;
            for (int i = 0; i < 4; i++)
                if (place >= end[i]) last = end[i];
            file.data[place] ^= (uint8_t)(1 << bit);
            while (wandb_store_next(&record, file.data, file.size, &at));
            assert_int_equal(at, last);
            file.data[place] ^= (uint8_t)(1 << bit);
        }
    bytes_free(&record);
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_around_the_end), cmocka_unit_test(test_damaged) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
