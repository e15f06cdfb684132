/* A parallel loop gives the same result for any number of threads, and workers know the rank they work
 * for. */
#include "base/testing.h"

#include <sched.h>
#include <stdatomic.h>
#include "base/team.h"

enum { N = 1000, CHUNK = 7, CHUNKS = (N + CHUNK - 1) / CHUNK };
typedef struct { float sum[CHUNKS]; int seen[N]; } Sums;

static void sum_chunk(void *context, int64_t begin, int64_t end)
{
    Sums *s   = context;
    float sum = 0;
    for (int64_t i = begin; i < end; i++) {
        sum += 1.0f / (float)(i + 1);
        s->seen[i]++;
    }
    s->sum[begin / CHUNK] = sum;
}

static void same_for_any_threads(void **state)
{
    (void)state;
    static Sums one;
    for (int threads = 1; threads <= 5; threads++) {
        Sums  s = { 0 };
        Team *team;
        assert_int_equal(team_open(&team, threads), OK);
        assert_int_equal(team_size(team), threads);
        team_for(team, N, CHUNK, sum_chunk, &s);
        for (int i = 0; i < N; i++) assert_int_equal(s.seen[i], 1);
        if (threads == 1) one = s;
        assert_memory_equal(s.sum, one.sum, sizeof s.sum);
        team_close(team);
    }
}

static void count_items(void *context, int64_t begin, int64_t end) { *(atomic_long *)context += end - begin; }

static void many_jobs_in_a_row(void **state)
{
    (void)state;
    Team       *team;
    atomic_long total    = 0;
    long        expected = 0;
    assert_int_equal(team_open(&team, 3), OK);
    for (long n = 0; n < 400; n++) {
        team_for(team, n, 5, count_items, &total);
        expected += n;
        assert_int_equal(total, expected);     /* done when it returns */
    }
    team_close(team);
}

enum { PHASES = 50 };
typedef struct { Team *team; long written[8][PHASES]; int calls[8]; atomic_long wrong; } Phases;

/* Each phase writes what all threads read in the next one. */
static void write_and_read(void *context, int thread, int threads)
{
    Phases *p = context;
    p->calls[thread]++;
    for (int phase = 0; phase < PHASES; phase++) {
        p->written[thread][phase] = phase + 1;
        team_barrier(p->team);
        for (int other = 0; other < threads; other++) p->wrong += p->written[other][phase] != phase + 1;
    }
}

static void phases_are_separated(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        Phases p = { 0 };
        assert_int_equal(team_open(&p.team, threads), OK);
        for (int run = 1; run <= 3; run++) {
            memset(p.written, 0, sizeof p.written);
            team_run(p.team, write_and_read, &p);
            for (int thread = 0; thread < 8; thread++)
                assert_int_equal(p.calls[thread], thread < threads ? run : 0);
        }
        assert_int_equal(p.wrong, 0);
        team_close(p.team);
    }
}

enum { MOST_ROUNDS = 1000000 };                /* of waiting for other threads: a second or more */
typedef struct { Team *team; atomic_int claims[N]; atomic_int wrong; int64_t n; int slow; } Claims;

static int64_t others_claimed(const Claims *c, int64_t item)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->n; k++) n += k != item && c->claims[k] > 0;
    return n;
}

/* One thread waits until others have all but the item that it holds, its own ones too. */
static void claim_items(void *context, int thread, int threads)
{
    Claims *c = context;
    int64_t last = -1, first = c->n * thread / threads, end = c->n * (thread + 1) / threads;
    for (int64_t i; (i = team_claim(c->team, thread)) >= 0; last = i) {
        if (i < 0 || i >= c->n) { c->wrong++; return; }
        c->claims[i]++;
        c->wrong += last >= first && last < end && i >= first && i < end && i <= last;
        for (int rounds = 0; thread == c->slow && threads > 1 && others_claimed(c, i) < c->n - 1; rounds++) {
            if (rounds > MOST_ROUNDS) { c->wrong++; return; }
            sched_yield();
        }
    }
}

static void items_are_claimed_once(void **state)
{
    (void)state;
    static Claims c;
    for (int threads = 1; threads <= 5; threads++) {
        assert_int_equal(team_open(&c.team, threads), OK);
        for (c.slow = -1; c.slow < threads; c.slow++)
            for (c.n = 0; c.n < 60; c.n += 7) {
                for (int i = 0; i < N; i++) c.claims[i] = 0;
                team_share(c.team, c.n);
                team_run(c.team, claim_items, &c);
                for (int64_t i = 0; i < N; i++) assert_int_equal(c.claims[i], i < c.n);
            }
        assert_int_equal(c.wrong, 0);
        team_close(c.team);
    }
}

static void see_rank(void *context, int64_t begin, int64_t end)
{
    if (thread_context()->rank == 4) *(atomic_long *)context += end - begin;
}

static void workers_know_the_rank(void **state)
{
    (void)state;
    Team       *team;
    atomic_long right = 0;
    assert_int_equal(team_open(&team, 4), OK);
    thread_context()->rank = 4;
    team_for(team, 100, 1, see_rank, &right);
    thread_context()->rank = -1;
    assert_int_equal(right, 100);
    team_close(team);
}

static void no_threads_is_refused(void **state)
{
    (void)state;
    Team *team;
    assert_int_equal(team_open(&team, 0), BAD_OPTION);
    assert_string_equal(fail_text(), "0 threads: a thread pool needs 1 or more");
    assert_null(team);
    assert_true(team_cores() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(many_jobs_in_a_row),
        cmocka_unit_test(items_are_claimed_once),
        cmocka_unit_test(phases_are_separated),
        cmocka_unit_test(workers_know_the_rank),
        cmocka_unit_test(no_threads_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
