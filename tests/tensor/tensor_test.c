/* Shapes, strides and views, with and without memory, and the messages of misuse. */
#include "base/testing.h"

#include "tensor/tensor.h"

static void shapes_and_strides(void **state)
{
    (void)state;
    Arena a;
    assert_int_equal(arena_open(&a, "test", 4096), OK);
    Tensor x = tensor_new(&a, "x", F32, 2, 3, 5);
    const int64_t dim[4] = { 2, 3, 5, 1 }, stride[4] = { 15, 5, 1, 1 };
    assert_memory_equal(x.dim, dim, sizeof dim);
    assert_memory_equal(x.stride, stride, sizeof stride);
    assert_int_equal(tensor_count(x), 30);
    assert_int_equal(tensor_bytes(x), 120);
    assert_int_equal(tensor_bytes(tensor_new(&a, "y", F64, 7)), 56);
    assert_int_equal(a.used, 512);
    assert_ptr_equal(x.data, a.base);
    assert_int_equal(tensor_bytes(tensor_new(&a, "none", U8, 4, 0)), 0);
    arena_close(&a);
}

static void dtypes(void **state)
{
    (void)state;
    const char *name[]  = { "F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I32", "U8" };
    size_t      width[] = { 8, 4, 2, 2, 1, 1, 4, 1 };
    for (int t = 0; t < DTYPES; t++) {
        assert_string_equal(dtype_name((Dtype)t), name[t]);
        assert_int_equal(dtype_width((Dtype)t), width[t]);
    }
}

static void views(void **state)
{
    (void)state;
    int32_t v[24];
    for (int i = 0; i < 24; i++) v[i] = i;
    Tensor x = tensor_at(v, I32, (const int64_t[]){ 2, 3, 4 }, 3);
    assert_true(tensor_contiguous(x));

    Tensor columns = tensor_slice(x, 2, 1, 2);
    assert_int_equal(*(int32_t *)columns.data, 1);
    assert_int_equal(columns.stride[1], 4);
    assert_int_equal(tensor_count(columns), 12);
    assert_false(tensor_contiguous(columns));
    assert_true(tensor_contiguous(tensor_slice(x, 0, 1, 1)));
    assert_false(tensor_contiguous(tensor_slice(x, 1, 0, 2)));
    Tensor row = tensor_slice(tensor_slice(x, 0, 1, 1), 1, 2, 1);         /* x[1, 2] */
    assert_true(tensor_contiguous(row));
    assert_int_equal(*(int32_t *)row.data, 20);

    Tensor table = tensor_view(x, 6, 4);
    assert_int_equal(table.stride[0], 4);
    assert_int_equal(table.dim[2], 1);
    Tensor run = tensor_flat(table, 5, 7);
    assert_int_equal(*(int32_t *)run.data, 5);
    assert_int_equal(run.dim[0], 7);
    assert_int_equal(tensor_count(run), 7);
}

static void dry_views_stay_dry(void **state)
{
    (void)state;
    Arena a;
    arena_dry(&a, "dry");
    Tensor x = tensor_new(&a, "x", F32, 4, 4);
    assert_null(tensor_flat(tensor_slice(x, 0, 2, 1), 1, 2).data);
    arena_close(&a);
}

static void misuse(void *context)
{
    float  v[12];
    Tensor x = tensor_at(v, F32, (const int64_t[]){ 3, 4 }, 2);
    switch (*(int *)context) {
    case 0: tensor_slice(x, 1, 3, 2);                     break;
    case 1: tensor_slice(x, 0, -1, 1);                    break;
    case 2: tensor_view(x, 5, 2);                        break;
    case 3: tensor_flat(tensor_slice(x, 1, 0, 2), 0, 1);  break;
    case 4: tensor_flat(x, 8, 5);                         break;
    case 5: tensor_at(v, F32, (const int64_t[]){ 3, -4 }, 2);
    }
}

static void misuse_stops(void **state)
{
    (void)state;
    const char *said[] = {
        "slice 3 + 2 is outside of axis 1 of 4",
        "slice -1 + 1 is outside of axis 0 of 3",
        "a tensor of 12 elements cannot be reshaped to 10",
        "only a contiguous tensor can be sliced as flat",
        "slice 8 + 5 is outside of axis 0 of 12",
        "dim 1 of a tensor is -4",
    };
    for (int i = 0; i < 6; i++) {
        Ended run = run_in_child(misuse, &i);
        assert_int_equal(run.exit_code, 3);
        assert_contains(run.text, said[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_strides),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(views),
        cmocka_unit_test(dry_views_stay_dry),
        cmocka_unit_test(misuse_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
