/* The two grids of ranks against what Megatron-LM publishes, and by counting: groups partition the ranks, and what arithmetic finds
 * is what visiting all ranks finds. */
#include <stdlib.h>
#include <string.h>
#include "base/testing.h"
#include "comm/mesh.h"

static Mesh mesh_of(int world, int rank, MeshShape shape)
{
    Mesh mesh;
    assert_int_equal(mesh_make(&mesh, world, rank, shape), OK);
    return mesh;
}

static void megatrons_order_is_spelled_by_hand(void **state)
{
    (void)state;
    for (int rank = 0; rank < 16; rank++) {
        Mesh mesh = mesh_of(16, rank, (MeshShape){ .tp = 2, .cp = 2, .pp = 2 });
        assert_int_equal(mesh.size.dp, 2);
        assert_int_equal(rank, mesh.at.tp + 2 * mesh.at.cp + 4 * mesh.at.dp + 8 * mesh.at.pp);
        mesh = mesh_of(16, rank, (MeshShape){ .tp = 2, .cp = 2, .pp = 2, .order = MESH_TP_PP_DP });
        assert_int_equal(rank, mesh.at.tp + 2 * mesh.at.cp + 4 * mesh.at.pp + 8 * mesh.at.dp);
    }
    Mesh mesh = mesh_of(16, 6, (MeshShape){ .tp = 2, .cp = 2, .pp = 2 });            /* tp 0, cp 1, dp 1, pp 0 */
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

/* The groups of an example, in the order of their first ranks. */
static void expect_groups(MeshShape shape, int world, int axes, int size, const int *want)
{
    int ranks[64], seen = 0;
    for (int rank = 0; rank < world; rank++) {
        Mesh mesh = mesh_of(world, rank, shape);
        assert_int_equal(mesh_group(&mesh, axes, ranks), size);
        if (ranks[0] != rank) continue;
        assert_memory_equal(ranks, want + seen, (size_t)size * sizeof *ranks);
        seen += size;
    }
    assert_int_equal(seen, world);
}

/* The docstring of initialize_model_parallel in Megatron-LM's parallel_state.py: 16 GPUs, tp 2, pp 4. */
static void the_example_of_16_gpus(void **state)
{
    (void)state;
    MeshShape shape = { .tp = 2, .cp = 1, .pp = 4 };
    expect_groups(shape, 16, AXIS_DP, 2, (int[]){ 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15 });
    expect_groups(shape, 16, AXIS_TP, 2, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 });
    expect_groups(shape, 16, AXIS_PP, 4, (int[]){ 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15 });
}

/* The docstring of RankGenerator.get_ranks there: tp 2, pp 3, dp 2 in the order tp-pp-dp. */
static void the_example_of_the_other_order(void **state)
{
    (void)state;
    MeshShape shape = { .tp = 2, .cp = 1, .pp = 3, .order = MESH_TP_PP_DP };
    expect_groups(shape, 12, AXIS_DP, 2, (int[]){ 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11 });
    expect_groups(shape, 12, AXIS_TP | AXIS_PP, 6, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 });
    expect_groups(shape, 12, AXIS_TP | AXIS_DP, 4, (int[]){ 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11 });
    expect_groups(shape, 12, AXIS_ALL, 12, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 });
    expect_groups(shape, 12, AXIS_PP | AXIS_DP, 6, (int[]){ 0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11 });
}

/* The order etp-ep-edp-pp written out: 16 ranks of two stages, tp 4; etp 1, ep 4 and etp 2, ep 2. */
static void the_expert_grid_is_spelled_by_hand(void **state)
{
    (void)state;
    MeshShape wide = { .tp = 4, .cp = 1, .pp = 2, .etp = 1, .ep = 4 }, cut = { .tp = 4, .cp = 1, .pp = 2, .etp = 2, .ep = 2 };
    expect_groups(wide, 16, AXIS_EP,  4, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 });
    expect_groups(wide, 16, AXIS_EDP, 2, (int[]){ 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15 });
    expect_groups(cut,  16, AXIS_ETP, 2, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 });
    expect_groups(cut,  16, AXIS_EP,  2, (int[]){ 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15 });
    expect_groups(cut,  16, AXIS_EP | AXIS_ETP, 4, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 });
    expect_groups(cut,  16, AXIS_EDP | AXIS_PP, 4, (int[]){ 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15 });
    /* dp 2 ranks of tp 1 hold one expert each: experts where data-parallel ranks are */
    expect_groups((MeshShape){ .tp = 1, .cp = 2, .pp = 2, .etp = 1, .ep = 4 }, 8, AXIS_EP, 4, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7 });
    /* stages before data ranks: those of a stage are 0 1 4 5 and 2 3 6 7 */
    expect_groups((MeshShape){ .tp = 2, .cp = 1, .pp = 2, .etp = 1, .ep = 4, .order = MESH_TP_PP_DP }, 8, AXIS_EP, 4, (int[]){ 0, 1, 4, 5, 2, 3, 6, 7 });
}

/* Two data-parallel replicas of 2 x 4 ranks: shards of two, four and eight. */
static void hybrid_groups_are_spelled_by_hand(void **state)
{
    (void)state;
    Mesh mesh = mesh_of(16, 10, (MeshShape){ .tp = 2, .cp = 2, .pp = 1 });           /* data group 0 2 4 .. 14 */
    int ranks[16];
    assert_int_equal(mesh_shard_group(&mesh, AXIS_DP | AXIS_CP, 2, ranks), 2);
    assert_memory_equal(ranks, ((int[]){ 8, 10 }), 2 * sizeof *ranks);
    assert_int_equal(mesh_replica_group(&mesh, AXIS_DP | AXIS_CP, 2, ranks), 4);
    assert_memory_equal(ranks, ((int[]){ 2, 6, 10, 14 }), 4 * sizeof *ranks);
    assert_int_equal(mesh_shard_group(&mesh, AXIS_DP | AXIS_CP, 4, ranks), 4);
    assert_memory_equal(ranks, ((int[]){ 8, 10, 12, 14 }), 4 * sizeof *ranks);
    assert_int_equal(mesh_replica_group(&mesh, AXIS_DP | AXIS_CP, 8, ranks), 1);
    assert_int_equal(ranks[0], 10);
}

/* A coordinate of an axis. */
static int on(MeshSize at, int axis)
{
    return axis == AXIS_TP ? at.tp : axis == AXIS_CP ? at.cp : axis == AXIS_DP ? at.dp : axis == AXIS_PP ? at.pp
         : axis == AXIS_ETP ? at.etp : axis == AXIS_EP ? at.ep : at.edp;
}

/* The group by visiting all ranks. */
static int group_visited(const Mesh *mesh, bool experts, int axes, int *ranks)
{
    static const int grid[2][4] = { { AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP }, { AXIS_ETP, AXIS_EP, AXIS_EDP, AXIS_PP } };
    int count = 0;
    for (int rank = 0; rank < mesh->world; rank++) {
        MeshSize at = mesh_coords(mesh, rank);
        bool in = true;
        for (int a = 0; a < 4; a++) in &= (axes & grid[experts][a]) || on(at, grid[experts][a]) == on(mesh->at, grid[experts][a]);
        if (in) ranks[count++] = rank;
    }
    return count;
}

static void groups_are_those_of_a_visit(int world, MeshShape shape)
{
    for (int rank = 0; rank < world; rank++) {
        Mesh mesh = mesh_of(world, rank, shape);
        assert_int_equal(mesh_rank(&mesh, mesh.at), rank);
        assert_int_equal(mesh.size.tp * mesh.size.cp * mesh.size.dp * mesh.size.pp, world);
        assert_int_equal(mesh.size.etp * mesh.size.ep * mesh.size.edp * mesh.size.pp, world);
        for (int a = 1; a < 128; a *= 2) assert_true(on(mesh.at, a) >= 0 && on(mesh.at, a) < on(mesh.size, a));
        for (int axes = 0; axes < 128; axes++) {
            int got[24], want[24];
            bool dense = axes & (AXIS_TP | AXIS_CP | AXIS_DP), experts = axes & AXIS_EXPERTS;
            if (dense && experts) continue;
            int count = group_visited(&mesh, experts, axes, want);
            assert_int_equal(mesh_group(&mesh, axes, NULL), count);
            assert_int_equal(mesh_group(&mesh, axes, got), count);
            assert_memory_equal(got, want, (size_t)count * sizeof *got);
        }
    }
}

/* Sizes of the expert grid that divide a stage of `stage` ranks: etp and ep of all divisors. */
static int expert_grids(int world, MeshShape shape, int stage)
{
    int meshes = 0;
    for (int etp = 1; etp <= stage; etp++)
        for (int ep = 1; etp * ep <= stage; ep++) {
            Mesh mesh;
            shape.etp = etp, shape.ep = ep;
            if (stage % (etp * ep) == 0) groups_are_those_of_a_visit(world, shape), meshes++;
            else assert_int_equal(mesh_make(&mesh, world, 0, shape), BAD_OPTION);
        }
    return meshes;
}

static void all_meshes_to_16_ranks(void **state)
{
    (void)state;
    int meshes = 0, dense = 0;
    for (int world = 1; world <= 16; world++)
        for (int tp = 1; tp <= world; tp++)
            for (int cp = 1; tp * cp <= world; cp++)
                for (int pp = 1; tp * cp * pp <= world; pp++)
                    for (MeshOrder order = MESH_TP_DP_PP; order <= MESH_TP_PP_DP; order++) {
                        Mesh mesh;
                        MeshShape shape = { .tp = tp, .cp = cp, .pp = pp, .order = order };
                        if (world % (tp * cp * pp) == 0) meshes += expert_grids(world, shape, world / pp), dense++;
                        else assert_int_equal(mesh_make(&mesh, world, 0, shape), BAD_OPTION);
                    }
    assert_int_equal(dense, 2 * 204);                          /* ordered factorisations in four of 1 .. 16, in two orders */
    assert_true(meshes > 2 * dense);
}

/* Shard groups partition the group, follow each other in it, and every replica group has one rank of each. */
static void hybrid_groups_partition(void **state)
{
    (void)state;
    for (int shard = 1; shard <= 12; shard++)
        for (int rank = 0; rank < 24 && 12 % shard == 0; rank++) {
            Mesh mesh = mesh_of(24, rank, (MeshShape){ .tp = 1, .cp = 3, .pp = 2, .order = MESH_TP_PP_DP });
            int group[24], shards[24], replicas[24], shared = 0, at = 0;
            assert_int_equal(mesh_group(&mesh, AXIS_DP | AXIS_CP, group), 12);
            assert_int_equal(mesh_shard_group  (&mesh, AXIS_DP | AXIS_CP, shard, shards), shard);
            assert_int_equal(mesh_replica_group(&mesh, AXIS_DP | AXIS_CP, shard, replicas), 12 / shard);
            while (group[at] != shards[0]) at++;
            assert_true(at % shard == 0);
            assert_memory_equal(group + at, shards, (size_t)shard * sizeof *group);
            for (int i = 0; i < shard; i++)
                for (int j = 0; j < 12 / shard; j++) shared += shards[i] == replicas[j];
            assert_int_equal(shared, 1);
            for (int j = 1; j < 12 / shard; j++) {
                Mesh other = mesh_of(24, replicas[j], (MeshShape){ .tp = 1, .cp = 3, .pp = 2, .order = MESH_TP_PP_DP });
                int theirs[24];
                mesh_replica_group(&other, AXIS_DP | AXIS_CP, shard, theirs);
                assert_memory_equal(theirs, replicas, (size_t)(12 / shard) * sizeof *theirs);
            }
        }
}

/* A group of 8 among 2^20 ranks: found without a visit to all of them. */
static void groups_of_a_large_world(void **state)
{
    (void)state;
    int ranks[8], world = 1 << 20;
    Mesh mesh = mesh_of(world, world - 1, (MeshShape){ .tp = 8, .cp = 16, .pp = 64, .etp = 1, .ep = 64 });
    for (int i = 0; i < 100000; i++) assert_int_equal(mesh_group(&mesh, AXIS_TP, ranks), 8);
    assert_int_equal(ranks[0], world - 8);
}

static void what_does_not_divide_is_refused_with_what_would(void **state)
{
    (void)state;
    Mesh mesh;
    assert_int_equal(mesh_make(&mesh, 8, 0, (MeshShape){ .tp = 3, .cp = 1, .pp = 1 }), BAD_OPTION);
    assert_contains(fail_text(), "tp 3");
    assert_contains(fail_text(), "start 6 or 9 ranks");
    assert_int_equal(mesh_make(&mesh, 2, 0, (MeshShape){ .tp = 2, .cp = 1, .pp = 2 }), BAD_OPTION);
    assert_contains(fail_text(), "start 4 ranks");
    assert_int_equal(mesh_make(&mesh, 2, 0, (MeshShape){ .tp = 0, .cp = 1, .pp = 2 }), BAD_OPTION);
    assert_int_equal(mesh_make(&mesh, 8, 0, (MeshShape){ .tp = 2, .cp = 1, .pp = 2, .ep = 3 }), BAD_OPTION);
    assert_contains(fail_text(), "product divides 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatrons_order_is_spelled_by_hand),
        cmocka_unit_test(the_example_of_16_gpus),
        cmocka_unit_test(the_example_of_the_other_order),
        cmocka_unit_test(the_expert_grid_is_spelled_by_hand),
        cmocka_unit_test(hybrid_groups_are_spelled_by_hand),
        cmocka_unit_test(all_meshes_to_16_ranks),
        cmocka_unit_test(hybrid_groups_partition),
        cmocka_unit_test(groups_of_a_large_world),
        cmocka_unit_test(what_does_not_divide_is_refused_with_what_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
