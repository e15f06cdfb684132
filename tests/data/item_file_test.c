/* fairseq's pairs, byte by byte from the description of the formats; Megatron's told from them; nothing hostile gets past. */
#include "data/token_files.h"

/* Items { 5, 2 }, { 2 }, { 65000, 6, 2 } */
static const uint8_t mmap_idx[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   8,   3, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0,   1, 0, 0, 0,   3, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,   4, 0, 0, 0, 0, 0, 0, 0,   6, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t mmap_bin[] = { 5, 0, 2, 0, 2, 0, 0xE8, 0xFD, 6, 0, 2, 0 };

/* The same as int32, each raised by one */
static const uint8_t tnt_idx[] = {
    'T', 'N', 'T', 'I', 'D', 'X', 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   4, 0, 0, 0, 0, 0, 0, 0,   4, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0,   3, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   2, 0, 0, 0, 0, 0, 0, 0,   3, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,   2, 0, 0, 0, 0, 0, 0, 0,   3, 0, 0, 0, 0, 0, 0, 0,   6, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0,   1, 0, 0, 0, 0, 0, 0, 0,   3, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t tnt_bin[] = { 6, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0xE9, 0xFD, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0 };

typedef struct { TokenFileKind kind; const uint8_t *idx; size_t idx_bytes; const uint8_t *bin; size_t bin_bytes; } Golden;
static const Golden goldens[] = {
    { TOKEN_FILE_ITEMS, mmap_idx, sizeof mmap_idx, mmap_bin, sizeof mmap_bin },
    { TOKEN_FILE_ITEMS_OLDER,  tnt_idx,  sizeof tnt_idx,  tnt_bin,  sizeof tnt_bin },
};

static void bytes_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void goldens_are_read(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 2, 1, 3 }, tokens[] = { 5, 2, 2, 65000, 6, 2 };
    for (int g = 0; g < 2; g++) {
        TokenFile f;
        bytes_write(idx_path, goldens[g].idx, goldens[g].idx_bytes);
        bytes_write(bin_path, goldens[g].bin, goldens[g].bin_bytes);
        assert_int_equal(token_file_open_any(&f, prefix), OK);
        assert_int_equal(f.kind, goldens[g].kind);
        assert_int_equal(f.sequences, 3);
        assert_int_equal(f.tokens, 6);
        for (int i = 0, start = 0; i < 3; start += (int)lengths[i++]) {
            assert_int_equal(token_file_length(&f, i), lengths[i]);
            assert_int_equal(token_file_start(&f, i), start);
        }
        for (int t = 0; t < 6; t++) assert_int_equal(token_file_id(&f, t), tokens[t]);
        assert_string_equal(token_file_type(&f), g ? "int32" : "uint16");
        token_file_close(&f);
    }
}

/* All widths, and signs where the type has one */
static void types_are_read(void **state)
{
    (void)state;
    static const struct { int code, width; int64_t ones; } row[] = { { 1, 1, 255 }, { 2, 1, -1 }, { 3, 2, -1 }, { 4, 4, -1 }, { 5, 8, -1 }, { 8, 2, 65535 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        TokenFile f;
        uint8_t idx[38] = { 0 }, bin[8];
        memcpy(idx, mmap_idx, 18);
        memset(bin, 255, sizeof bin);
        idx[17] = (uint8_t)row[i].code, idx[18] = 1, idx[26] = 1;
        bytes_write(idx_path, idx, sizeof idx);
        bytes_write(bin_path, bin, (size_t)row[i].width);
        assert_int_equal(token_file_open_any(&f, prefix), OK);
        assert_int_equal(token_file_id(&f, 0), row[i].ones);
        token_file_close(&f);
        idx[17] = 6;                            /* floats are no ids */
        bytes_write(idx_path, idx, sizeof idx);
        assert_int_equal(token_file_open_any(&f, prefix), BAD_FILE);
    }
}

/* Megatron's own, of any size, is never taken for fairseq's, and the other way round. */
static void kinds_are_told_apart(void **state)
{
    (void)state;
    for (int documents = 0; documents < 40; documents++) {
        TokenFileWriter *w;
        TokenFile token_file;
        assert_int_equal(token_file_create(&w, prefix, 257), OK);
        for (int d = 0; d < documents; d++) {
            if (d % 3) assert_int_equal(token_file_add(w, (int32_t[]){ d, 1 }, 2), OK);
            assert_int_equal(token_file_end_document(w), OK);
        }
        assert_int_equal(token_file_finish(w), OK);
        assert_int_equal(token_file_open(&token_file, prefix), OK);
        assert_int_equal(token_file.kind, TOKEN_FILE_MEGATRON);
        token_file_close(&token_file);
    }
    /* Training reads the newer format, each item as a document; the older one has other numbers. */
    for (int g = 0; g < 2; g++) {
        TokenFile token_file;
        bytes_write(idx_path, goldens[g].idx, goldens[g].idx_bytes);
        bytes_write(bin_path, goldens[g].bin, goldens[g].bin_bytes);
        assert_int_equal(token_file_open(&token_file, prefix), g ? BAD_FILE : OK);
        if (g) assert_non_null(strstr(fail_text(), "words of a dictionary, TNTIDX"));
        if (g) continue;
        TokenFile f;
        assert_int_equal(token_file_open_any(&f, prefix), OK);
        assert_int_equal(token_file.kind, TOKEN_FILE_ITEMS);
        assert_int_equal(token_file.documents, f.sequences);
        assert_int_equal(token_file.tokens, f.tokens);
        for (int64_t i = 0; i < f.sequences; i++) {
            assert_int_equal(token_file_document(&token_file, i), i);
            assert_int_equal(token_file_start(&token_file, i), token_file_start(&f, i));
            assert_int_equal(token_file_length(&token_file, i), token_file_length(&f, i));
        }
        for (int64_t t = 0; t < f.tokens; t++)
            assert_int_equal(token_file_token(&token_file, t), token_file_id(&f, t));
        token_file_close(&f);
        token_file_close(&token_file);
    }
}

static void cut_is_refused(void **state)
{
    (void)state;
    for (int g = 0; g < 2; g++) {
        TokenFile f;
        bytes_write(bin_path, goldens[g].bin, goldens[g].bin_bytes);
        for (size_t bytes = 0; bytes < goldens[g].idx_bytes; bytes++) {
            bytes_write(idx_path, goldens[g].idx, bytes);
            assert_int_equal(token_file_open_any(&f, prefix), BAD_FILE);
            assert_non_null(strstr(fail_text(), idx_path));
        }
        bytes_write(idx_path, goldens[g].idx, goldens[g].idx_bytes);
        for (size_t bytes = 0; bytes < goldens[g].bin_bytes; bytes++) {
            bytes_write(bin_path, goldens[g].bin, bytes);
            assert_int_equal(token_file_open_any(&f, prefix), BAD_FILE);
        }
    }
}

/* Every byte changed in many ways: refused, or the type became another of the same width. */
static void changed_is_refused(void **state)
{
    (void)state;
    for (int g = 0; g < 2; g++) {
        uint8_t idx[sizeof tnt_idx];
        TokenFile f;
        bytes_write(bin_path, goldens[g].bin, goldens[g].bin_bytes);
        for (size_t at = 0; at < goldens[g].idx_bytes; at++)
            for (int value = 0; value < 256; value += 5) {
                memcpy(idx, goldens[g].idx, goldens[g].idx_bytes);
                if (idx[at] == value) continue;
                idx[at] = (uint8_t)value;
                bytes_write(idx_path, idx, goldens[g].idx_bytes);
                Status status = token_file_open_any(&f, prefix);
                bool type = at == (g ? 16u : 17u);
                if (status != OK) assert_int_equal(status, BAD_FILE);
                else assert_true(type && f.width == (g ? 4 : 2));
                if (status == OK) token_file_close(&f);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_are_read),
        cmocka_unit_test(types_are_read),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(cut_is_refused),
        cmocka_unit_test(changed_is_refused),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
