/* The pair as bytes: what is written is what the format says, and nothing hostile gets past token_file_open. */
#include <errno.h>
#include <unistd.h>
#include "base/seam.h"
#include "data/datasets.h"
#include "data/token_files.h"
#include "base/testing.h"

/* Documents { 1, 2, 3 }, { }, { 256, 4 } as uint16, byte by byte from the description of the format. */
static const uint8_t golden_idx[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   8,
    2, 0, 0, 0, 0, 0, 0, 0,                    4, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0,   2, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,   6, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   2, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t golden_bin[] = { 1, 0, 2, 0, 3, 0, 0, 1, 4, 0 };

static void bytes_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void bytes_equal(const char *path, const void *data, size_t bytes)
{
    uint8_t got[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), bytes);
    fclose(file);
    assert_memory_equal(got, data, bytes);
}

static Status documents_write(int64_t vocabulary)
{
    TokenFileWriter *w;
    TRY(token_file_create(&w, prefix, vocabulary));
    Status status = token_file_add(w, (int32_t[]){ 1, 2, 3 }, 3);
    if (status == OK) status = token_file_end_document(w);
    if (status == OK) status = token_file_end_document(w);                /* an empty document */
    if (status == OK) status = token_file_add(w, (int32_t[]){ 256, 4 }, 2);
    if (status == OK) status = token_file_end_document(w);
    if (status == OK) return token_file_finish(w);
    token_file_discard(w);
    return status;
}

static void written_is_golden(void **state)
{
    (void)state;
    assert_int_equal(documents_write(257), OK);
    bytes_equal(idx_path, golden_idx, sizeof golden_idx);
    bytes_equal(bin_path, golden_bin, sizeof golden_bin);
}

static void golden_is_read(void **state)
{
    (void)state;
    TokenFile token_file;
    bytes_write(idx_path, golden_idx, sizeof golden_idx);
    bytes_write(bin_path, golden_bin, sizeof golden_bin);
    assert_int_equal(token_file_open(&token_file, prefix), OK);
    assert_int_equal(token_file.width, 2);
    assert_int_equal(token_file.sequences, 2);
    assert_int_equal(token_file.documents, 3);
    assert_int_equal(token_file.tokens, 5);
    assert_int_equal(token_file_start(&token_file, 1), 3);
    assert_int_equal(token_file_length(&token_file, 1), 2);
    assert_int_equal(token_file_document(&token_file, 1), 1);
    assert_int_equal(token_file_document(&token_file, 2), 1);
    assert_int_equal(token_file_document(&token_file, 3), 2);
    assert_int_equal(token_file_token(&token_file, 2), 3);
    assert_int_equal(token_file_token(&token_file, 3), 256);
    token_file_close(&token_file);
}

/* The border of 65,500 entries, and int32 above it */
static void width_follows_vocabulary(void **state)
{
    (void)state;
    TokenFile token_file;
    for (int wide = 0; wide <= 1; wide++) {
        assert_int_equal(documents_write(65499 + wide), OK);
        assert_int_equal(token_file_open(&token_file, prefix), OK);
        assert_int_equal(token_file.width, wide ? 4 : 2);
        assert_int_equal(token_file.index.data[17], wide ? 4 : 8);
        assert_int_equal(token_file_token(&token_file, 3), 256);
        token_file_close(&token_file);
    }
}

static void nothing_written_is_empty(void **state)
{
    (void)state;
    TokenFileWriter *w;
    TokenFile token_file;
    assert_int_equal(token_file_create(&w, prefix, 257), OK);
    assert_int_equal(token_file_finish(w), OK);
    assert_int_equal(token_file_open(&token_file, prefix), OK);
    assert_int_equal(token_file.tokens + token_file.sequences + token_file.documents, 0);
    token_file_close(&token_file);
}

static void cut_index_is_refused(void **state)
{
    (void)state;
    TokenFile token_file;
    bytes_write(bin_path, golden_bin, sizeof golden_bin);
    for (size_t bytes = 0; bytes < sizeof golden_idx; bytes++) {
        bytes_write(idx_path, golden_idx, bytes);
        assert_int_equal(token_file_open(&token_file, prefix), BAD_FILE);
        assert_non_null(strstr(fail_text(), idx_path));
    }
    uint8_t longer[sizeof golden_idx + 1] = { 0 };
    memcpy(longer, golden_idx, sizeof golden_idx);
    bytes_write(idx_path, longer, sizeof longer);
    assert_int_equal(token_file_open(&token_file, prefix), BAD_FILE);
}

static void cut_bin_is_refused(void **state)
{
    (void)state;
    TokenFile token_file;
    uint8_t longer[sizeof golden_bin + 2] = { 0 };
    memcpy(longer, golden_bin, sizeof golden_bin);
    bytes_write(idx_path, golden_idx, sizeof golden_idx);
    for (size_t bytes = 0; bytes <= sizeof longer; bytes++) {
        if (bytes == sizeof golden_bin) continue;
        bytes_write(bin_path, longer, bytes);
        assert_int_equal(token_file_open(&token_file, prefix), BAD_FILE);
        assert_non_null(strstr(fail_text(), bin_path));
    }
    unlink(bin_path);
    assert_int_equal(token_file_open(&token_file, prefix), BAD_FILE);
}

/* Many values of a byte, at every place: only the inner document entries have a second lawful reading. */
static void changed_index_is_refused(void **state)
{
    (void)state;
    TokenFile   token_file;
    uint8_t idx[sizeof golden_idx];
    size_t  inner = 34 + 12 * 2 + 8;
    bytes_write(bin_path, golden_bin, sizeof golden_bin);
    for (size_t at = 0; at < sizeof idx; at++)
        for (int value = 0; value < 256; value += 15) {
            if (golden_idx[at] == value) continue;
            memcpy(idx, golden_idx, sizeof idx);
            idx[at] = (uint8_t)value;
            bytes_write(idx_path, idx, sizeof idx);
            Status status = token_file_open(&token_file, prefix);
            if (status == OK) assert_true(at >= inner && at < inner + 16 && token_file_document(&token_file, 2) <= 2);
            else              assert_int_equal(status, BAD_FILE);
            if (status == OK) token_file_close(&token_file);
        }
}

/* Counts whose products wrap 2^64 so that the sizes seem to agree: 12 S + 8 D == bytes behind the header, modulo 2^64.
 * All else is zeros, and so lawful as far as it goes. */
static void counts_that_wrap_are_refused(void **state)
{
    (void)state;
    TokenFile    token_file;
    uint8_t  idx[sizeof golden_idx] = { 0 };
    uint64_t capacity = sizeof idx - 34;
    const uint64_t sequences[] = { 6, 8, 56, (uint64_t)1 << 61, (uint64_t)1 << 62, (uint64_t)1 << 63, UINT64_MAX - 1 };
    bytes_write(bin_path, "", 0);
    memcpy(idx, golden_idx, 18);
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        for (uint64_t third = 0; third < 8; third++) {
            uint64_t entries = ((capacity - 12 * sequences[i]) >> 3) + (third << 61);
            memcpy(idx + 18, &sequences[i], 8);
            memcpy(idx + 26, &entries, 8);
            bytes_write(idx_path, idx, sizeof idx);
            assert_int_equal(token_file_open(&token_file, prefix), BAD_FILE);
            assert_true(strstr(fail_text(), "byte 18:") || strstr(fail_text(), "byte 26:"));    /* not by luck, later */
        }
}

static void wrong_prefix_names_the_cure(void **state)
{
    (void)state;
    TokenFile token_file;
    assert_int_equal(documents_write(257), OK);
    assert_int_equal(token_file_open(&token_file, idx_path), BAD_FILE);
    assert_non_null(strstr(fail_text(), "without .bin or .idx"));
}

static int writes_left;
static ssize_t write_short(int fd, const void *data, size_t bytes, off_t at)
{
    if (writes_left-- > 0) return seam_system.write(fd, data, bytes, at);
    errno = ENOSPC;
    return -1;
}

/* A disk that fills leaves neither half a pair nor its scaffolding, and the pair of before stays readable. */
static void failed_write_leaves_the_old_pair(void **state)
{
    (void)state;
    TokenFile token_file;
    char part[128];
    assert_int_equal(documents_write(257), OK);
    for (int good = 0; good < 2; good++) {
        writes_left = good;
        seam.write  = write_short;
        Status status = documents_write(100000);
        seam.write  = seam_system.write;
        assert_int_equal(status, IO_FAILED);
        assert_int_equal(token_file_open(&token_file, prefix), OK);
        assert_int_equal(token_file.width, 2);
        token_file_close(&token_file);
        snprintf(part, sizeof part, "%s.part", bin_path);
        assert_false(file_exists(part));
    }
}

/* The second of two writers is told so and touches nothing; who is killed or gives up leaves the way free. */
static void two_writers_do_not_mix(void **state)
{
    (void)state;
    TokenFile token_file;
    TokenFileWriter *first, *second;
    assert_int_equal(token_file_create(&first, prefix, 257), OK);
    assert_int_equal(token_file_add(first, (int32_t[]){ 1, 2, 3 }, 3), OK);
    assert_int_equal(token_file_create(&second, prefix, 257), BAD_FILE);
    assert_non_null(strstr(fail_text(), "another process is writing it"));
    assert_int_equal(token_file_end_document(first), OK);
    assert_int_equal(token_file_finish(first), OK);
    assert_int_equal(token_file_open(&token_file, prefix), OK);
    assert_int_equal(token_file.tokens, 3);
    token_file_close(&token_file);
    assert_int_equal(token_file_create(&second, prefix, 257), OK);
    token_file_discard(second);
    assert_int_equal(documents_write(257), OK);
}

/* A pair of 1 MiB that is cut between its opening and its fingerprint */
static void cut_pair_has_no_fingerprint(void **state)
{
    (void)state;
    enum { TOKENS = 1 << 19 };
    static int32_t ids[TOKENS];
    TokenFile token_file;
    Datasets  datasets;
    char      name[80];
    const char *words[] = { name }, *text;
    pair_make(&token_file, "long", ids, (int[]){ TOKENS }, 1, 256);
    token_file_close(&token_file);
    snprintf(name, sizeof name, "%s/long", folder);
    DatasetsPlan plan = { .rules = { .data_path = { words, 1, false } }, .split = "1,0,0" };
    assert_int_equal(datasets_open(&datasets, &plan), OK);
    long calls = thread_context()->file_calls;
    assert_int_equal(datasets_fingerprints(&datasets, &text), OK);
    assert_true(thread_context()->file_calls - calls >= 16);          /* progress, block by block */
    datasets_close(&datasets);

    assert_int_equal(datasets_open(&datasets, &plan), OK);
    snprintf(name + strlen(name), 5, ".bin");
    assert_int_equal(truncate(name, 100000), 0);
    assert_int_equal(datasets_fingerprints(&datasets, &text), BAD_FILE);
    assert_non_null(strstr(fail_text(), name));
    assert_null(text);
    datasets_close(&datasets);
}

/* Of many files fewer blocks are read, and hashes of other numbers of blocks are not compared. */
typedef struct { DatasetsPlan plan; char *was; } Resume;

static void resume(void *context)
{
    Resume  *r = context;
    Datasets datasets;
    if (datasets_open(&datasets, &r->plan) != OK || datasets_compare(&datasets, r->was) != OK) _exit(1);
    datasets_close(&datasets);
}

static void many_files_share_what_is_read(void **state)
{
    (void)state;
    enum { TOKENS = 1 << 19, FILES = 300 };
    static int32_t ids[TOKENS];
    static const char *words[FILES];
    TokenFile token_file;
    Datasets  datasets;
    char      name[80];
    const char *text;
    assert_int_equal(token_file_blocks(1), 256);
    assert_int_equal(token_file_blocks(16), 256);
    assert_int_equal(token_file_blocks(17), 128);
    assert_int_equal(token_file_blocks(FILES), 8);
    assert_int_equal(token_file_blocks(1000000), 8);
    pair_make(&token_file, "shared", ids, (int[]){ TOKENS }, 1, 256);
    token_file_close(&token_file);
    snprintf(name, sizeof name, "%s/shared", folder);
    for (int i = 0; i < FILES; i++) words[i] = name;

    Resume r = { .plan = { .rules = { .order = ORDER_MEGATRON, .data_path = { words, FILES, false } }, .split = "1,0,0" } };
    assert_int_equal(datasets_open(&datasets, &r.plan), OK);
    long calls = thread_context()->file_calls;
    assert_int_equal(datasets_fingerprints(&datasets, &text), OK);
    assert_int_equal(thread_context()->file_calls - calls, FILES * (8 + 1 + 1));     /* of .bin, and .idx whole */
    assert_non_null(strstr(text, ", 8 blocks "));
    assert_non_null(r.was = strdup(text));
    datasets_close(&datasets);

    r.plan.rules.data_path.count = 1;
    Ended ended = run_in_child(resume, &r);
    assert_int_equal(ended.exit_code, 0);
    assert_string_equal(ended.text, "");
    r.plan.rules.data_path.count = FILES;
    assert_string_equal(run_in_child(resume, &r).text, "");
    strstr(r.was, ", 8 blocks ")[12] ^= 1;
    assert_contains(run_in_child(resume, &r).text, "was replaced");
    free(r.was);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_golden),
        cmocka_unit_test(golden_is_read),
        cmocka_unit_test(width_follows_vocabulary),
        cmocka_unit_test(nothing_written_is_empty),
        cmocka_unit_test(cut_index_is_refused),
        cmocka_unit_test(cut_bin_is_refused),
        cmocka_unit_test(changed_index_is_refused),
        cmocka_unit_test(counts_that_wrap_are_refused),
        cmocka_unit_test(wrong_prefix_names_the_cure),
        cmocka_unit_test(failed_write_leaves_the_old_pair),
        cmocka_unit_test(two_writers_do_not_mix),
        cmocka_unit_test(cut_pair_has_no_fingerprint),
        cmocka_unit_test(many_files_share_what_is_read),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
