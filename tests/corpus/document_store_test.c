/* Documents come out of the store as they went in, in any order; damage is reported; the progress file is tied to its run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "corpus/clean/progress_file.h"
#include "corpus/clean/sink.h"
#include "corpus/read/stream.h"
#include <cmocka.h>              /* after ours: it has a macro named fail */

enum { DOCUMENTS = 500, KEYS = 3, LARGE = 300000 };
static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/jotun-store-XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    return folder_remove(folder) != OK;
}

static int64_t text_make(char *text, int d)
{
    int64_t bytes = d == 77 ? LARGE : 1 + d * 7 % 900;
    for (int64_t i = 0; i < bytes; i++) text[i] = (char)('a' + (i * i + d) % 26);
    return bytes;
}

/* *half: the size after 300 documents; NULL: nobody asks */
static void pieces_put(DocumentStore *store, StoreSize *half)
{
    static char text[LARGE];
    StorePart  piece  = { 0 };
    StorePacker packer = { 0 };
    for (int d = 0; d < DOCUMENTS; d++) {
        StoredDocument document = { .text = { text, text_make(text, d) }, .line = d, .input = d % 5, .label = -1, .probability = 0.5F };
        uint64_t key[KEYS] = { (uint64_t)d, 2, 3 };
        if (d % 3 == 0) document.url = (JsonText){ "http://a", 8 };
        if (d % 2) document.id = (JsonText){ "", 0 };
        assert_int_equal(document_store_put(&packer, &piece, &document, (StoredRow){ .bytes = d }, key, KEYS), OK);
        if (d % 100 < 99) continue;
        assert_int_equal(document_store_close_part(&packer, &piece), OK);
        assert_int_equal(document_store_add(store, &piece), OK);
        document_store_clear_part(&piece, 1000);
        if (half && d == 299) *half = document_store_size(store);
    }
    document_store_free_part(&piece);
    document_store_free_packer(&packer);
}

static void document_check(const DocumentStore *store, StoreReader *reader, int d)
{
    static char text[LARGE];
    StoredRow row;
    StoredDocument document;
    uint64_t key[KEYS];
    assert_int_equal(document_store_rows(store, &row, d, 1), OK);
    assert_int_equal(row.bytes, d);
    assert_int_equal(document_store_keys(store, key, d, 1), OK);
    assert_int_equal(key[0], d);
    assert_int_equal(document_store_read(store, reader, &document, &row), OK);
    assert_int_equal(document.text.bytes, text_make(text, d));
    assert_memory_equal(document.text.text, text, (size_t)document.text.bytes);
    assert_int_equal(document.line, d);
    assert_int_equal(document.input, d % 5);
    assert_int_equal(document.url.text != NULL, d % 3 == 0);
    assert_int_equal(document.id.text != NULL, d % 2);
    assert_null(document.title.text);
}

static void comes_out_as_it_went_in(void **state)
{
    (void)state;
    DocumentStore *store;
    StoreReader reader = { 0 };
    assert_int_equal(document_store_open(&store, folder, KEYS, (StoreSize){ 0 }), OK);
    StoreSize size;
    pieces_put(store, &size);
    assert_int_equal(document_store_size(store).documents, DOCUMENTS);
    for (int i = 0; i < DOCUMENTS; i++) document_check(store, &reader, i * 7 % DOCUMENTS);
    document_store_close(store);
    assert_int_equal(document_store_open(&store, folder, KEYS, size), OK);         /* what is behind that is cut off; what is before it stays */
    assert_memory_equal(document_store_size(store).sum, size.sum, sizeof size.sum);
    StoredRow row;
    assert_int_equal(document_store_rows(store, &row, 299, 1), OK);
    assert_int_equal(document_store_rows(store, &row, 300, 1), IO_FAILED);
    document_store_free_reader(&reader);
    document_store_close(store);
}

static void byte_turn(const char *name, long at)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    int was = getc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(putc(was ^ 1, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void damage_is_told(void **state)
{
    (void)state;
    char path[128];
    DocumentStore *store;
    StoredRow row;
    StoredDocument document;
    StoreReader reader = { 0 };
    assert_int_equal(document_store_open(&store, folder, KEYS, (StoreSize){ 0 }), OK);
    pieces_put(store, NULL);
    snprintf(path, sizeof path, "%s/texts", folder);
    assert_int_equal(document_store_rows(store, &row, 77, 1), OK);
    FILE *file = fopen(path, "r+b");
    assert_int_equal(fseek(file, (long)(row.block + row.compressed / 2), SEEK_SET), 0);
    fwrite("damage", 6, 1, file);
    fclose(file);
    assert_int_equal(document_store_read(store, &reader, &document, &row), BAD_FILE);
    assert_non_null(strstr(fail_text(), "damaged"));
    row.at = 1 << 30;
    assert_int_equal(document_store_rows(store, &row, 0, 1), OK);
    row.at = 1 << 30;
    assert_int_equal(document_store_read(store, &reader, &document, &row), BAD_FILE);
    byte_turn("rows", 5 * (long)sizeof row + 40);            /* where its text stands in the block */
    assert_int_equal(document_store_rows(store, &row, 4, 1), OK);
    assert_int_equal(document_store_rows(store, &row, 5, 1), BAD_FILE);
    assert_non_null(strstr(fail_text(), "row 5"));
    StoreSize size = document_store_size(store);
    document_store_free_reader(&reader);
    document_store_close(store);
    assert_int_equal(document_store_open(&store, folder, KEYS, size), BAD_FILE);
    assert_non_null(strstr(fail_text(), "texts: damaged: the checksum of its first"));
    size.bytes[STORE_TEXTS]++;                   /* the progress file says more than the file has */
    assert_int_equal(document_store_open(&store, folder, KEYS, size), BAD_FILE);
    assert_non_null(strstr(fail_text(), "--restart"));
}

static void progress_file_knows_its_run(void **state)
{
    (void)state;
    bool   found;
    ProgressFile progress, then = { .file = 3, .blocks = 14, .done = 1000, .scanned = 1, .size = { 9, { 1, 2, 3, 4 }, { 5, 6, UINT64_MAX, 8 } } };
    CleanCounts *counts = clean_counts_new(2), *other = clean_counts_new(2), *more = clean_counts_new(3);
    assert_int_equal(progress_file_read(&progress, other, &found, folder, "--a 1\n"), OK);
    assert_false(found);
    counts->in = (Count){ 5, 50 };
    clean_counts_drop(counts, DROP_NEAR, 7);
    clean_counts_drop(counts, DROP_KEPT, 7);
    counts->language[1].documents = 4;
    assert_int_equal(progress_file_write(&then, counts, folder, "--a 1\n--b 2\n"), OK);
    assert_int_equal(progress_file_read(&progress, other, &found, folder, "--a 1\n--b 2\n"), OK);
    assert_true(found);
    assert_memory_equal(other, counts, (size_t)clean_counts_numbers(counts) * sizeof(int64_t));
    assert_int_equal(progress.blocks, 14);
    assert_int_equal(progress.size.bytes[3], 4);
    assert_true(progress.size.sum[2] == UINT64_MAX);
    assert_true(progress.scanned);
    assert_int_equal(progress_file_read(&progress, other, &found, folder, "--a 1\n--b 3\n"), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "had  --b 2  and this one has  --b 3 "));
    assert_int_equal(progress_file_read(&progress, other, &found, folder, "--a 1\n"), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "had also  --b 2 "));
    assert_int_equal(progress_file_read(&progress, more, &found, folder, "--a 1\n--b 2\n"), BAD_FILE);
    byte_turn("progress", 32);                     /* `done`: a number that is as good as the one before it */
    assert_int_equal(progress_file_read(&progress, other, &found, folder, "--a 1\n--b 2\n"), BAD_FILE);
    assert_non_null(strstr(fail_text(), "checksum"));
    clean_counts_add(other, counts);
    assert_int_equal(other->in.bytes, 100);
    assert_int_equal(other->dropped[DROP_NEAR].documents, 2);
    assert_int_equal(other->languages, 2);
    free(counts);
    free(other);
    free(more);
}

static void lengths_by_powers_of_two(void **state)
{
    (void)state;
    int64_t length[COUNTS_LENGTHS] = { 0 };
    clean_counts_length(length, 0);
    clean_counts_length(length, 1);
    clean_counts_length(length, 2);
    clean_counts_length(length, 3);
    clean_counts_length(length, 1024);
    clean_counts_length(length, INT64_MAX);
    assert_int_equal(length[0], 2);
    assert_int_equal(length[1], 2);
    assert_int_equal(length[10], 1);
    assert_int_equal(length[COUNTS_LENGTHS - 1], 1);
}

static void sinks_come_whole(void **state)
{
    (void)state;
    char   path[128], part[160], text[64];
    size_t got;
    Stream *stream;
    Sink   sink = { .fd = -1 };
    snprintf(path, sizeof path, "%s/deep/x.txt.zst", folder);
    snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(sink_open(&sink, path), OK);
    assert_int_equal(buffer_add(&sink.text, "hej ", 4), OK);
    assert_int_equal(sink_flush(&sink, 0), OK);
    assert_int_equal(buffer_add(&sink.text, "svejs", 5), OK);
    assert_false(file_exists(path));
    assert_true(file_exists(part));
    assert_int_equal(sink_finish(&sink), OK);
    assert_int_equal(sink.bytes, 9);
    assert_false(file_exists(part));
    assert_int_equal(stream_open(&stream, path, 0), OK);
    assert_int_equal(stream_read(stream, text, sizeof text, &got), OK);
    assert_int_equal(got, 9);
    assert_memory_equal(text, "hej svejs", 9);
    stream_close(stream);
    assert_int_equal(sink_open(&sink, path), OK);
    sink_discard(&sink);                         /* the file of before stands */
    assert_false(file_exists(part));
    assert_true(file_exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_out_as_it_went_in, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(progress_file_knows_its_run, setup, teardown),
        cmocka_unit_test(lengths_by_powers_of_two),
        cmocka_unit_test_setup_teardown(sinks_come_whole, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
