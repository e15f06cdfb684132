/* Records of all lengths around a block, at all places around its end, are read back as they were written; a
 * file that is cut or damaged is read up to that place and not beyond it. */
#include "base/testing.h"

#include "logs/wandb_store.h"

enum { BLOCK = 32768, LONGEST = 2 * BLOCK + 40 };
static uint8_t text[LONGEST];

static void fill(void)
{
    for (size_t i = 0; i < LONGEST; i++) text[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void put(Buffer *file, size_t size) { wandb_store_add(file, (size_t)file->bytes, text, size); }

static const uint8_t *data_of(const Buffer *file) { return (const uint8_t *)file->text; }

static bool got(const Buffer *file, size_t *at, size_t size)
{
    Buffer record = { 0 };
    bool found = wandb_store_next(&record, data_of(file), (size_t)file->bytes, at);
    bool same = found && record.bytes == (int64_t)size && (size == 0 || memcmp(record.text, text, size) == 0);
    buffer_free(&record);
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
            Buffer file = { 0 };
            wandb_store_header(&file);
            put(&file, first);
            put(&file, sizes[i]);
            put(&file, 3);
            assert_true(got(&file, &at, first));
            assert_true(got(&file, &at, sizes[i]));
            assert_true(got(&file, &at, 3));
            assert_int_equal(at, file.bytes);
            assert_false(got(&file, &at, 0));
            buffer_free(&file);
        }
}

/* The end of the last whole record is told, wherever the file ends or a byte is changed. */
static void test_damaged(void **state)
{
    Buffer file = { 0 }, record = { 0 };
    size_t end[4];
    (void)state;
    fill();
    wandb_store_header(&file);
    for (int i = 0; i < 4; i++) {
        end[i] = (size_t)file.bytes;
        put(&file, (size_t)(40 * i + 1));
    }
    const size_t all = (size_t)file.bytes;
    for (size_t size = WANDB_STORE_HEADER; size <= all; size++) {
        size_t at = WANDB_STORE_HEADER, whole = 0;
        for (int i = 1; i < 4; i++)
            if (size >= end[i]) whole = end[i];
        while (wandb_store_next(&record, data_of(&file), size, &at)) assert_true(at <= size);
        assert_true(at == (size == all ? all : whole ? whole : WANDB_STORE_HEADER));
    }
    for (size_t place = WANDB_STORE_HEADER; place < all; place++)
        for (int bit = 0; bit < 8; bit++) {
            size_t at = WANDB_STORE_HEADER, last = 0;
            for (int i = 0; i < 4; i++)
                if (place >= end[i]) last = end[i];
            file.text[place] = (char)(file.text[place] ^ 1 << bit);
            while (wandb_store_next(&record, data_of(&file), all, &at));
            assert_int_equal(at, last);
            file.text[place] = (char)(file.text[place] ^ 1 << bit);
        }
    buffer_free(&record);
    buffer_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_around_the_end), cmocka_unit_test(test_damaged) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
