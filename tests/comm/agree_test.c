#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/testing.h"
#include "comm/agree.h"
#include "comm/transport.h"

typedef struct { int failing; const char *why; Status got[8]; char text[8][FAIL_BYTES]; } Vote;     /* failing: a bit for each rank */

static Status vote_body(Transport *transport, void *context)
{
    Vote *vote = context;
    int   me   = transport->rank;
    Comm *world;
    world = comm_world(transport);
    TRY(agree(world, OK));
    Status mine   = vote->failing >> me & 1 ? fail(me == 1 ? BAD_FILE : IO_FAILED, "disk %d is full%s", me, vote->why ? vote->why : "") : OK;
    vote->got[me] = agree(world, mine);
    snprintf(vote->text[me], sizeof vote->text[me], "%s", vote->got[me] == OK ? "" : fail_text());
    comm_close(world);
    return OK;
}

static void the_lowest_failing_rank_speaks_for_all(void **state)
{
    (void)state;
    char host[65] = "", expected[600];
    gethostname(host, sizeof host - 1);
    for (int failing = 0; failing < 16; failing++) {
        Vote vote = { .failing = failing };
        int  lowest = failing & 1 ? 0 : failing & 2 ? 1 : failing & 4 ? 2 : 3;
        assert_int_equal(transport_threads_run(4, vote_body, &vote), OK);
        snprintf(expected, sizeof expected, "rank %d on %s: disk %d is full", lowest, host, lowest);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(vote.got[r], failing == 0 ? OK : lowest == 1 ? BAD_FILE : IO_FAILED);
            assert_string_equal(vote.text[r], failing == 0 ? "" : expected);
        }
    }
}

static void a_long_message_arrives_whole(void **state)
{
    (void)state;
    char why[1901];
    memset(why, 'q', 1900);
    why[1900] = 0;
    Vote vote = { .failing = 1 << 2, .why = why };
    assert_int_equal(transport_threads_run(4, vote_body, &vote), OK);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(vote.got[r], IO_FAILED);
        assert_non_null(strstr(vote.text[r], "disk 2 is fullqqq"));
        assert_string_equal(strchr(vote.text[r], 'q'), why);
    }
}

static void one_rank_agrees_with_itself(void **state)
{
    (void)state;
    Vote vote = { .failing = 1 };
    assert_int_equal(transport_threads_run(1, vote_body, &vote), OK);
    assert_int_equal(vote.got[0], IO_FAILED);
    assert_string_equal(vote.text[0], "disk 0 is full");
}

typedef struct { const char *mine[4]; Status got[4]; char text[4][512]; } Texts;

static Status texts_body(Transport *transport, void *context)
{
    Texts *texts = context;
    int    me    = transport->rank;
    Comm  *world;
    world = comm_world(transport);
    texts->got[me] = agree_on_text(world, texts->mine[me], "give all the same");
    snprintf(texts->text[me], sizeof texts->text[me], "%s", texts->got[me] == OK ? "" : fail_text());
    comm_close(world);
    return OK;
}

static void the_first_line_that_differs_is_shown(void **state)
{
    (void)state;
    char host[65] = "", long_line[400] = "a 1\n";
    memset(long_line + 4, 'q', sizeof long_line - 5);
    gethostname(host, sizeof host - 1);
    const struct { const char *first, *third, *says; } rows[] = {
        { "a 1\nb 2\n", "a 1\nb 2\n", NULL },
        { "a 1\x1f (default)\nb 2\n", "a 1\nb 2\x1f (typed)\n", NULL },
        { "a 1\nb 2\x1f (default)\nc 3\n", "a 1\nb 3\nc 4\n", "b 3, and rank 0 has b 2 (default); give all the same" },
        { "a 1\nb 2\n", "a 1\nb 23\x1f (typed)\n", "b 23 (typed), and rank 0 has b 2; give" },
        { "a 1\n", "a 1\nb 2\n", "b 2, and rank 0 has ; give" },
        { "a 1\nb 2\n", long_line, "qqq, and rank 0 has b 2; give" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Texts texts = { .mine = { rows[i].first, rows[i].first, rows[i].third, rows[i].first } };
        char begins[80];
        snprintf(begins, sizeof begins, "rank 2 on %.60s: ", host);
        assert_int_equal(transport_threads_run(4, texts_body, &texts), OK);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(texts.got[r], rows[i].says ? BAD_OPTION : OK);
            if (!rows[i].says) continue;
            assert_ptr_equal(strstr(texts.text[r], begins), texts.text[r]);
            assert_contains(texts.text[r], rows[i].says);
        }
    }
}

static Status failing_body(Transport *transport, void *context)
{
    (void)context;
    Comm *world;
    world = comm_world(transport);
    comm_barrier(world);
    comm_close(world);
    return transport->rank >= 2 ? fail(BAD_SHAPE, "rank %d says no", transport->rank) : OK;
}

static void the_lowest_failing_thread_is_the_result(void **state)
{
    (void)state;
    assert_int_equal(transport_threads_run(4, failing_body, NULL), BAD_SHAPE);
    assert_string_equal(fail_text(), "rank 2 says no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_failing_rank_speaks_for_all),
        cmocka_unit_test(a_long_message_arrives_whole), cmocka_unit_test(one_rank_agrees_with_itself),
        cmocka_unit_test(the_first_line_that_differs_is_shown),
        cmocka_unit_test(the_lowest_failing_thread_is_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
