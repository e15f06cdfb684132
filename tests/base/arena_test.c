/* A dry arena counts what a real one takes; the memory table, alignment, misuse and poisoned memory. */
#include "base/testing.h"

#include <stdio.h>
#include "base/arena.h"
#include "base/random.h"

/* Pushes, marks and resets in an order made of random numbers: the same for both arenas */
static void wander(Arena *a)
{
    static const char *const what[] = { "x", "y", "mean", "rstd", "qkv" };
    size_t mark[8] = { 0 };
    int    marks   = 0;
    for (uint64_t i = 0; i < 500; i++) {
        uint32_t dice = random_bits(1, i);
        if (dice % 8 == 0 && marks < 8)  mark[marks++] = arena_mark(a);
        else if (dice % 8 == 1 && marks) arena_reset(a, mark[--marks]);
        else arena_push(a, what[dice >> 8 & 3], dice >> 20);
    }
}

static void dry_counts_what_real_takes(void **state)
{
    (void)state;
    Arena dry, real;
    arena_dry(&dry, "flight");
    wander(&dry);
    assert_int_equal(arena_open(&real, "flight", dry.peak), OK);     /* and not a byte more */
    wander(&real);
    assert_int_equal(real.used, dry.used);
    assert_int_equal(real.peak, real.size);
    assert_int_equal(real.tags, dry.tags);
    size_t live = 0;
    for (int i = 0; i < dry.tags; i++) {
        assert_string_equal(real.tag[i].name, dry.tag[i].name);
        assert_int_equal(real.tag[i].bytes, dry.tag[i].bytes);
        assert_int_equal(real.tag[i].peak, dry.tag[i].peak);
        live += dry.tag[i].bytes;
    }
    assert_int_equal(live, dry.used);
    arena_close(&real);
    arena_close(&dry);
}

/* An arena of several huge pages begins at one, whose every byte is there, and so it is closed. */
static void large_ones_are_whole(void **state)
{
    (void)state;
    enum { BYTES = (5 << 20) + 12345 };
    Team *team;
    assert_int_equal(team_open(&team, 3), OK);
    for (int i = 0; i < 2; i++) {
        Arena a;
        assert_int_equal(arena_open_on(&a, "flight", BYTES, NULL, i ? team : NULL), OK);
        assert_int_equal(a.size, BYTES);
        assert_true((uintptr_t)a.base % (2 << 20) == 0);
        char *all = arena_push(&a, "x", BYTES - 256);
        memset(all, 1, BYTES - 256);
        assert_int_equal(all[BYTES - 257], 1);
        arena_close(&a);
    }
    team_close(team);
    assert_true(arena_huge_bytes() >= 0);
}

static void tags_by_hand(void **state)
{
    (void)state;
    Arena a;
    char  same[] = "x";                        /* another pointer, the same name */
    assert_int_equal(arena_open(&a, "scratch", 4096), OK);
    assert_true((uintptr_t)arena_push(&a, "x", 1) % ARENA_ALIGN == 0);
    size_t mark = arena_mark(&a);
    assert_true((uintptr_t)arena_push(&a, "y", 257) % ARENA_ALIGN == 0);
    arena_push(&a, same, 300);
    arena_push(&a, "y", 1);
    assert_int_equal(a.used, 256 + 512 + 512 + 256);
    arena_reset(&a, mark);
    assert_int_equal(a.tags, 2);
    assert_int_equal(a.tag[0].bytes, 256);
    assert_int_equal(a.tag[0].peak, 768);
    assert_int_equal(a.tag[1].bytes, 0);
    assert_int_equal(a.tag[1].peak, 768);
    arena_push(&a, "y", 512);                  /* below its peak */
    assert_int_equal(a.tag[1].peak, 768);
    assert_int_equal(a.peak, 1536);
    arena_close(&a);
}

static void more_names_than_rows(void **state)
{
    (void)state;
    static char names[100][16];
    Arena       a;
    arena_dry(&a, "forever");
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        assert_null(arena_push(&a, names[i], 256));
    }
    assert_int_equal(a.tags, ARENA_TAGS);
    assert_string_equal(a.tag[ARENA_TAGS - 2].name, "w62");
    assert_string_equal(a.tag[ARENA_TAGS - 1].name, "all others");
    assert_int_equal(a.tag[ARENA_TAGS - 1].bytes, 37 * 256);
    arena_reset(&a, 0);
    assert_int_equal(a.tag[ARENA_TAGS - 1].bytes, 0);
    arena_close(&a);
}

static void overflows(void *context)
{
    Arena a;
    arena_open(&a, "flight", 1024);
    arena_push(&a, "x", 512);
    arena_push(&a, "h_TF", *(size_t *)context);
    arena_close(&a);
}
static void resets_into_a_push(void *context)
{
    Arena a;
    arena_open(&a, "flight", 1024);
    arena_push(&a, "x", 512);
    arena_reset(&a, *(size_t *)context);
    arena_close(&a);
}

static void misuse_stops(void **state)
{
    (void)state;
    size_t fits = 512, over = 513, within = 256, beyond = 768;
    assert_int_equal(run_in_child(overflows, &fits).exit_code, 0);
    Ended full = run_in_child(overflows, &over);
    assert_int_equal(full.exit_code, 3);
    assert_contains(full.text, "arena flight is full: h_TF asks for 768 bytes, 512 of 1024 are left");
    assert_contains(run_in_child(resets_into_a_push, &within).text, "256 is not the mark of a push");
    assert_contains(run_in_child(resets_into_a_push, &beyond).text, "reset to 768, but only 512");
}

static void no_memory_is_a_status(void **state)
{
    (void)state;
    Arena a;
    assert_int_equal(arena_open(&a, "forever", (size_t)1 << 60), NO_MEMORY);
    assert_string_equal(fail_text(), "the system has no 1.0 EiB of memory for the forever part of a rank's memory");
    arena_close(&a);
    assert_int_equal(arena_open(&a, "forever", SIZE_MAX), NO_MEMORY);
}

static void reads_after_reset(void *context)
{
    (void)context;
    Arena a;
    arena_open(&a, "scratch", 4096);
    volatile unsigned char *x = arena_push(&a, "x", 16);
    x[15] = 5;
    arena_reset(&a, 0);
    dprintf(STDERR_FILENO, "read %02x", x[15]);
}

static void poison(void **state)
{
    (void)state;
    Ended run = run_in_child(reads_after_reset, NULL);
#if defined(__SANITIZE_ADDRESS__)
    assert_contains(run.text, "use-after-poison");
#elif defined(JOTUN_DEBUG)
    assert_string_equal(run.text, "read ff");
#else
    assert_string_equal(run.text, "read 05");                /* a release pays nothing */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_counts_what_real_takes),
        cmocka_unit_test(large_ones_are_whole),
        cmocka_unit_test(tags_by_hand),
        cmocka_unit_test(more_names_than_rows),
        cmocka_unit_test(misuse_stops),
        cmocka_unit_test(no_memory_is_a_status),
        cmocka_unit_test(poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
