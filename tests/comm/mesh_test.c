#include <string.h>
#include "base/testing.h"
#include "comm/mesh.h"

static void megatrons_order_is_spelled_by_hand(void **state)
{
    (void)state;
    Mesh mesh;
    for (int rank = 0; rank < 16; rank++) {
        assert_int_equal(mesh_make(&mesh, 16, rank, 2, 2, 2), OK);
        assert_int_equal(mesh.size.dp, 2);
        assert_int_equal(rank, mesh.at.tp + 2 * mesh.at.cp + 4 * mesh.at.dp + 8 * mesh.at.pp);
    }
    assert_int_equal(mesh_make(&mesh, 16, 6, 2, 2, 2), OK);             /* tp 0, cp 1, dp 1, pp 0 */
    static const struct { int axes, count, ranks[4]; } groups[] = {
        { AXIS_TP, 2, { 6, 7 } }, { AXIS_CP, 2, { 4, 6 } }, { AXIS_DP, 2, { 2, 6 } }, { AXIS_PP, 2, { 6, 14 } },
        { AXIS_DP | AXIS_CP, 4, { 0, 2, 4, 6 } }, { 0, 1, { 6 } },
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        int ranks[16];
        assert_int_equal(mesh_group(&mesh, groups[i].axes, ranks), groups[i].count);
        assert_memory_equal(ranks, groups[i].ranks, (size_t)groups[i].count * sizeof *ranks);
    }
}

/* Each rank is in exactly one group of each set of axes, and all members see the same one. */
static void groups_partition(int world, int tp, int cp, int pp)
{
    int seen[16][24];                                                   /* first member by axes and rank */
    for (int rank = 0; rank < world; rank++) {
        Mesh mesh;
        assert_int_equal(mesh_make(&mesh, world, rank, tp, cp, pp), OK);
        assert_int_equal(mesh_rank(&mesh, mesh.at), rank);
        assert_int_equal(mesh.size.tp * mesh.size.cp * mesh.size.dp * mesh.size.pp, world);
        assert_true(mesh.at.tp < mesh.size.tp && mesh.at.cp < mesh.size.cp);
        assert_true(mesh.at.dp < mesh.size.dp && mesh.at.pp < mesh.size.pp);
        for (int axes = 0; axes < 16; axes++) {
            int ranks[24], count = mesh_group(&mesh, axes, ranks), has = 0;
            int size = (axes & AXIS_TP ? mesh.size.tp : 1) * (axes & AXIS_CP ? mesh.size.cp : 1) *
                       (axes & AXIS_DP ? mesh.size.dp : 1) * (axes & AXIS_PP ? mesh.size.pp : 1);
            assert_int_equal(count, size);
            for (int i = 0; i < count; i++) {
                has += ranks[i] == rank;
                assert_true(i == 0 || ranks[i] > ranks[i - 1]);
                if (ranks[i] < rank) assert_int_equal(seen[axes][ranks[i]], ranks[0]);
            }
            assert_int_equal(has, 1);
            seen[axes][rank] = ranks[0];
        }
    }
}

static void all_meshes_to_24_ranks(void **state)
{
    (void)state;
    int meshes = 0;
    for (int world = 1; world <= 24; world++)
        for (int tp = 1; tp <= world; tp++)
            for (int cp = 1; tp * cp <= world; cp++)
                for (int pp = 1; tp * cp * pp <= world; pp++) {
                    Mesh mesh;
                    if (world % (tp * cp * pp) == 0) groups_partition(world, tp, cp, pp), meshes++;
                    else assert_int_equal(mesh_make(&mesh, world, 0, tp, cp, pp), BAD_OPTION);
                }
    assert_int_equal(meshes, 408);                                      /* ordered factorisations in four of 1 .. 24 */
}

static void what_does_not_divide_is_refused_with_what_would(void **state)
{
    (void)state;
    Mesh mesh;
    assert_int_equal(mesh_make(&mesh, 8, 0, 3, 1, 1), BAD_OPTION);
    assert_contains(fail_text(), "tp 3");
    assert_contains(fail_text(), "start 6 or 9 ranks");
    assert_int_equal(mesh_make(&mesh, 2, 0, 2, 1, 2), BAD_OPTION);
    assert_contains(fail_text(), "start 4 ranks");
    assert_int_equal(mesh_make(&mesh, 2, 0, 0, 1, 2), BAD_OPTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatrons_order_is_spelled_by_hand),
        cmocka_unit_test(all_meshes_to_24_ranks),
        cmocka_unit_test(what_does_not_divide_is_refused_with_what_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
