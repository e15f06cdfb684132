/* Tensors in pieces: every element is read from the right place in any order, and pieces that overlap, leave
 * gaps or lie outside of the file are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail                      /* cmocka's; base/status.h has another */
#include "convert/foreign.h"

enum { ROWS = 6, COLUMNS = 10, COUNT = ROWS * COLUMNS };
static char path[] = "/tmp/jotun_foreign_XXXXXX";

/* A file of 2 COUNT numbers, value 1000 + index, after one byte, so that no element is aligned. */
static int file_make(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "wb");
    fputc('x', out);
    for (int i = 0; i < 2 * COUNT; i++) {
        float value = (float)(1000 + i);
        fwrite(&value, sizeof value, 1, out);
    }
    return fclose(out);
}

static int file_drop(void **state) { (void)state; return unlink(path); }

static void open_with(ForeignFile *file, int *tensor)
{
    int map;
    foreign_begin(file, "a checkpoint");
    assert_int_equal(foreign_map(file, &map, path), OK);
    assert_int_equal(foreign_tensor(file, tensor, FOREIGN_WEIGHT, "w", F32, 2, (const int64_t[]){ ROWS, COLUMNS }), OK);
}

static const char *element(const ForeignFile *file, int i)
{
    return (const char *)file->map[0].data + 1 + 4 * i;
}

static ForeignPiece box(const ForeignFile *file, int row, int column, int rows, int columns, int at,
                        int row_step, int column_step)
{
    return (ForeignPiece){ { row, column }, { rows, columns, 1, 1 }, { row_step, column_step, 1, 1 },
                           element(file, at) };
}

/* Left columns row-major, right columns transposed in memory. */
static void pieces_are_read_in_any_order(void **state)
{
    (void)state;
    ForeignFile file;
    int t;
    float all[COUNT], want[COUNT], some[COUNT];
    open_with(&file, &t);
    ForeignPiece left = box(&file, 0, 0, ROWS, 4, 0, 4, 1), right = box(&file, 0, 4, ROWS, 6, 24, 1, ROWS);
    assert_int_equal(foreign_piece(&file, t, &right), OK);
    assert_int_equal(foreign_piece(&file, t, &left), OK);
    assert_int_equal(foreign_finish(&file), OK);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            want[r * COLUMNS + c] = (float)(1000 + (c < 4 ? 4 * r + c : 24 + r + ROWS * (c - 4)));
    const ForeignTensor *w = foreign_find(&file, FOREIGN_WEIGHT, "w");
    foreign_read(w, 0, 1, COUNT, all, F32);
    assert_memory_equal(all, want, sizeof all);
    for (int first = 0; first < COUNT; first += 7)
        for (int step = -9; step <= 13; step++) {
            int count = step > 0 ? (COUNT - 1 - first) / step + 1 : step < 0 ? first / -step + 1 : 1;
            foreign_read(w, first, step, count, some, F32);
            for (int k = 0; k < count; k++) assert_true(some[k] == want[first + k * step]);
        }
    foreign_release(&file);
    double wide[COUNT];
    foreign_read(w, 0, 1, COUNT, wide, F64);
    for (int k = 0; k < COUNT; k++) assert_true(wide[k] == want[k]);
    foreign_close(&file);
}

static void whole_tensors_are_ranges(void **state)
{
    (void)state;
    ForeignFile file;
    int t, empty;
    float column[ROWS];
    open_with(&file, &t);
    assert_int_equal(foreign_whole(&file, t, element(&file, COUNT)), OK);
    assert_int_equal(foreign_tensor(&file, &empty, FOREIGN_WEIGHT, "a", F32, 1, (const int64_t[]){ 0 }), OK);
    assert_int_equal(foreign_finish(&file), OK);
    foreign_read(foreign_find(&file, FOREIGN_WEIGHT, "w"), 3, COLUMNS, ROWS, column, F32);
    for (int r = 0; r < ROWS; r++) assert_true(column[r] == (float)(1000 + COUNT + 3 + COLUMNS * r));
    assert_null(foreign_find(&file, FOREIGN_WEIGHT, "b"));
    assert_string_equal(file.tensor[0].name, "a");
    foreign_close(&file);
}

/* Three ranges one behind the other, cut anywhere, are the whole. */
static void ranges_are_boxes(void **state)
{
    (void)state;
    const int64_t shape[] = { 3, 4, 5 };
    for (int a = 0; a <= COUNT; a++)
        for (int b = a; b <= COUNT; b += 3) {
            ForeignFile file;
            float all[COUNT];
            int   t, unused;
            open_with(&file, &unused);
            assert_int_equal(foreign_whole(&file, unused, element(&file, 0)), OK);
            assert_int_equal(foreign_tensor(&file, &t, FOREIGN_WEIGHT, "r", F32, 3, shape), OK);
            const int at[] = { 0, a, b, COUNT };
            for (int i = 0; i < 3; i++)
                assert_int_equal(foreign_range(&file, t, at[i], at[i + 1] - at[i], element(&file, at[i])), OK);
            assert_int_equal(foreign_range(&file, t, COUNT, 1, element(&file, 0)), BAD_FILE);
            assert_int_equal(foreign_finish(&file), OK);
            foreign_read(foreign_find(&file, FOREIGN_WEIGHT, "r"), 0, 1, COUNT, all, F32);
            for (int i = 0; i < COUNT; i++) assert_true(all[i] == (float)(1000 + i));
            foreign_close(&file);
        }
}

static void refused(const ForeignPiece *one, const ForeignPiece *two, const char *why)
{
    ForeignFile file;
    int t;
    open_with(&file, &t);
    for (int i = 0; i < 2; i++) {
        const ForeignPiece *from = i ? two : one;
        if (!from) continue;
        ForeignPiece piece = *from;
        piece.data = element(&file, 0);
        assert_int_equal(foreign_piece(&file, t, &piece), OK);
    }
    assert_int_equal(foreign_finish(&file), BAD_FILE);
    if (!strstr(fail_text(), why)) fprintf(stderr, "'%s' instead of '%s'\n", fail_text(), why);
    assert_non_null(strstr(fail_text(), why));
    foreign_close(&file);
}

static void wrong_pieces_are_refused(void **state)
{
    (void)state;
    ForeignPiece whole  = { { 0 }, { ROWS, COLUMNS, 1, 1 }, { COLUMNS, 1, 1, 1 }, NULL };
    ForeignPiece half   = { { 0 }, { ROWS, 5, 1, 1 }, { 5, 1, 1, 1 }, NULL };
    ForeignPiece beyond = { { 0, 6 }, { ROWS, 5, 1, 1 }, { 5, 1, 1, 1 }, NULL };
    ForeignPiece long_row = { { 0 }, { ROWS, COLUMNS, 1, 1 }, { 25, 1, 1, 1 }, NULL };
    ForeignPiece back   = { { 0 }, { ROWS, COLUMNS, 1, 1 }, { COLUMNS, -1, 1, 1 }, NULL };
    ForeignPiece far    = { { 0 }, { ROWS, COLUMNS, 1, 1 }, { INT64_MAX / 2, 1, 1, 1 }, NULL };
    refused(&half, NULL, "parts of tensor 'w' have 30 of its 60");
    refused(NULL, NULL, "have 0 of its 60");
    refused(&whole, &half, "same elements");
    refused(&beyond, NULL, "beyond its shape in dimension 1");
    refused(&long_row, NULL, "outside of the file");
    refused(&back, NULL, "outside of the file");
    refused(&far, NULL, "outside of the file");
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    ForeignFile file;
    int t, u;
    open_with(&file, &t);
    assert_int_equal(foreign_tensor(&file, &u, FOREIGN_WEIGHT, "x", F32, 2, (const int64_t[]){ 4, -1 }), BAD_FILE);
    assert_int_equal(foreign_tensor(&file, &u, FOREIGN_WEIGHT, "x", F32, 3, (const int64_t[]){ 0, INT64_MAX, INT64_MAX }),
                     BAD_FILE);
    assert_int_equal(foreign_tensor(&file, &u, FOREIGN_WEIGHT, "x", F32, 5, (const int64_t[]){ 1, 1, 1, 1, 1 }), BAD_FILE);
    assert_int_equal(foreign_whole(&file, t, element(&file, 0)), OK);
    assert_int_equal(foreign_tensor(&file, &u, FOREIGN_WEIGHT, "w", F32, 1, (const int64_t[]){ 0 }), OK);
    assert_int_equal(foreign_finish(&file), BAD_FILE);
    assert_non_null(strstr(fail_text(), "two tensors are named 'w'"));
    foreign_close(&file);
}

/* One file mapped often is many files; their order in memory is the system's. */
static void files_are_found_by_address(void **state)
{
    (void)state;
    enum { MAPS = 300 };
    ForeignFile file;
    int t, map;
    open_with(&file, &t);
    assert_int_equal(foreign_whole(&file, t, element(&file, 0)), OK);
    for (int i = 1; i < MAPS; i++) {
        assert_int_equal(foreign_map(&file, &map, path), OK);
        assert_int_equal(map, i);
    }
    assert_int_equal(foreign_finish(&file), OK);
    for (int i = 0; i < MAPS; i++) {
        const char *begin = (const char *)file.map[i].data;
        assert_int_equal(foreign_map_of(&file, begin), i);
        assert_int_equal(foreign_map_of(&file, begin + file.map[i].size - 1), i);
        assert_int_equal(foreign_map_of(&file, begin + file.map[i].size), -1);      /* the rest of its last page */
    }
    assert_int_equal(foreign_map_of(&file, (const char *)1), -1);
    foreign_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found_by_address),
        cmocka_unit_test(pieces_are_read_in_any_order), cmocka_unit_test(whole_tensors_are_ranges),
        cmocka_unit_test(ranges_are_boxes), cmocka_unit_test(wrong_pieces_are_refused),     cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, file_make, file_drop);
}
