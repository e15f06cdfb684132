/* Schedules: exhaustively made and proved, their published figures, and damage that the checker must name. */
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parallel/schedule.h"

enum { STAGES = 8, MICROS = 12 };

static int least(int a, int b) { return a < b ? a : b; }

static void make_all(Schedule *all, ScheduleKind kind, int p, int v, int m)
{
    for (int i = 0; i < p; i++) {
        Status status = schedule_make(&all[i], kind, p, i, v, m);
        if (status != OK) fail_msg("p %d v %d m %d: %s", p, v, m, fail_text());
    }
}

static void free_all(Schedule *all, int p)
{
    for (int i = 0; i < p; i++) schedule_free(&all[i]);
}

/* ---- all small pipelines ---- */

static int published_peak(ScheduleKind kind, int p, int i, int v, int m)
{
    switch (kind) {
    case SCHEDULE_1F1B:        return least(m, p - i);
    case SCHEDULE_INTERLEAVED: return least(m * v, 2 * (p - i - 1) + (v - 1) * p + 1);
    case SCHEDULE_ZB_H1:       return least(m, p);
    default:                   return p == 1 ? least(v, 2) : least(m * v, 2);
    }
}

static int alive_at_most(const Schedule *s)    /* training: what the checker counts, counted again */
{
    int live = 0, peak = 0;
    for (int r = 0; r < s->rows; r++) {
        bool first_stage = s->stages == 1 || (s->stage == 0 && s->row[r].chunk == 0);
        live += s->row[r].verb == RECV || (s->row[r].verb == FORWARD && first_stage);
        live -= s->row[r].verb == BACKWARD_WEIGHT;
        if (peak < live) peak = live;
    }
    return peak;
}

static void prove(ScheduleKind kind, int p, int v, int m)
{
    Schedule all[STAGES];
    make_all(all, kind, p, v, m);
    if (schedule_check(all, p) != OK) fail_msg("p %d v %d m %d: %s", p, v, m, fail_text());
    for (int i = 0; i < p; i++) {
        int peak = published_peak(kind, p, i, v, m);
        assert_int_equal(schedule_peak(kind, p, i, v, m), peak);
        if (kind != SCHEDULE_FORWARD) assert_int_equal(alive_at_most(&all[i]), peak);
        assert_int_equal(all[i].slots, peak);
        for (int r = 0; r < all[i].rows && p == 1; r++) {
            ScheduleVerb verb = all[i].row[r].verb;
            assert_true(verb == FORWARD || verb == BACKWARD_INPUT || verb == BACKWARD_WEIGHT || verb >= REDUCE);
        }
    }
    free_all(all, p);
}

static void test_exhaustive(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++) {
        for (int m = 1; m <= MICROS; m++) {
            prove(SCHEDULE_1F1B, p, 1, m);
            prove(SCHEDULE_ZB_H1, p, 1, m);
            for (int v = 1; v <= 4; v++) prove(SCHEDULE_FORWARD, p, v, m);
            for (int v = 1; v <= 4 && m % p == 0; v++) prove(SCHEDULE_INTERLEAVED, p, v, m);
        }
    }
    prove(SCHEDULE_INTERLEAVED, 8, 16, 64);
    prove(SCHEDULE_ZB_H1, 8, 1, 500);
}

/* ---- orders by hand ---- */

static void spell(char *out, const Schedule *s, bool messages)
{
    static const char letter[] = "RFSrBWs";
    for (int r = 0; r < s->rows; r++) {
        const ScheduleRow *row = &s->row[r];
        bool work = row->verb == FORWARD || row->verb == BACKWARD_INPUT || row->verb == BACKWARD_WEIGHT;
        if (!work && !messages) continue;
        if (row->verb == WAIT) out += sprintf(out, " ?%c%d", letter[s->row[row->posted].verb], row->micro);
        else if (row->verb >= REDUCE) out += sprintf(out, " %s", schedule_verb_name(row->verb));
        else out += sprintf(out, " %c%d", letter[row->verb], row->micro);
    }
}

static void expect_order(ScheduleKind kind, int p, int stage, int m, bool messages, const char *order)
{
    Schedule s;
    char text[1024];
    assert_int_equal(schedule_make(&s, kind, p, stage, 1, m), OK);
    spell(text, &s, messages);
    assert_string_equal(text, order);
    schedule_free(&s);
}

static void test_orders(void **state)
{
    (void)state;
    expect_order(SCHEDULE_1F1B, 2, 0, 3, true,
                 " r0 r1 F0 S0 F1 S1 ?r0 ?S0 B0 W0 r2 F2 S2 ?r1 ?S1 B1 W1 ?r2 ?S2 B2 W2 REDUCE STEP");
    expect_order(SCHEDULE_1F1B, 2, 1, 3, true,
                 " R0 ?R0 F0 B0 W0 s0 R1 ?R1 F1 B1 W1 s1 R2 ?R2 F2 ?s0 B2 W2 s2 REDUCE ?s1 ?s2 STEP");
    expect_order(SCHEDULE_ZB_H1, 3, 0, 4, false, " F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    expect_order(SCHEDULE_ZB_H1, 3, 1, 4, false, " F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    expect_order(SCHEDULE_ZB_H1, 3, 2, 4, false, " F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    expect_order(SCHEDULE_FORWARD, 2, 0, 3, true, " F0 S0 F1 S1 ?S0 F2 S2 ?S1 ?S2");
    expect_order(SCHEDULE_FORWARD, 2, 1, 3, true, " R0 R1 ?R0 F0 R2 ?R1 F1 ?R2 F2");
}

/* ---- bubbles ---- */

static void expect_idle(ScheduleKind kind, int p, int v, int m, double f, double b, double w, double expected)
{
    Schedule all[STAGES];
    double idle[STAGES];
    make_all(all, kind, p, v, m);
    double last = schedule_simulate(all, p, f, b, w, idle);
    for (int i = 0; i < p; i++)
        if (idle[i] < expected - 1e-9 || idle[i] > expected + 1e-9)
            fail_msg("%s p %d v %d m %d: stage %d idle %g, not %g", schedule_name(kind), p, v, m, i, idle[i],
                     expected);
    assert_float_equal(last, m * v * (kind == SCHEDULE_FORWARD ? f : f + b + w) + expected, 1e-9);
    free_all(all, p);
}

static void test_bubbles(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES; p++) {
        for (int m = 1; m <= MICROS; m++) {
            expect_idle(SCHEDULE_1F1B, p, 1, m, 1, 1, 1, 3 * (p - 1));
            expect_idle(SCHEDULE_1F1B, p, 1, m, 2, 3, 1, 6 * (p - 1));
            expect_idle(SCHEDULE_FORWARD, p, 1, m, 2, 0, 0, 2 * (p - 1));
            /* (p - 1) (f + b - w); below p micro-batches only m - 1 weight gradients are there to fill with */
            expect_idle(SCHEDULE_ZB_H1, p, 1, m, 1, 1, 1, 2 * (p - 1) - (least(m, p) - 1));
            for (int v = 1; v <= 4 && m % p == 0; v++)
                expect_idle(SCHEDULE_INTERLEAVED, p, v, m, 1.0 / v, 1.0 / v, 1.0 / v, 3.0 * (p - 1) / v);
        }
    }
    Schedule all[2];
    make_all(all, SCHEDULE_1F1B, 2, 1, 1);
    double *end = schedule_ends(all, 2, 1, 10, 100);
    assert_float_equal(end[all[0].rows - 1], 222, 0);                  /* F | F B W | B W */
    assert_float_equal(end[all[0].rows + all[1].rows - 1], 112, 0);
    free(end);
    free_all(all, 2);
}

/* ---- refusals ---- */

static void expect_refusal(ScheduleKind kind, int p, int stage, int v, int m, const char *words)
{
    Schedule s;
    assert_int_equal(schedule_make(&s, kind, p, stage, v, m), BAD_OPTION);
    assert_null(s.row);
    assert_contains(fail_text(), words);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal(SCHEDULE_INTERLEAVED, 4, 0, 2, 6, "4 or 8 would work");
    expect_refusal(SCHEDULE_INTERLEAVED, 4, 0, 2, 3, "4 or 8 would work");
    expect_refusal(SCHEDULE_1F1B, 2, 0, 2, 4, "interleaved takes several");
    expect_refusal(SCHEDULE_ZB_H1, 2, 0, 2, 4, "one chunk per stage, not 2");
    expect_refusal(SCHEDULE_1F1B, 2, 2, 1, 4, "no stage 2 of 2");
    expect_refusal(SCHEDULE_1F1B, 2, 0, 1, 0, "0 micro-batches");
    expect_refusal(SCHEDULE_FORWARD, 2, 0, CHUNKS_MAX + 1, 1, "17 chunks");
}

/* ---- damage ---- */

static int find(const Schedule *s, ScheduleVerb verb, int chunk, int micro)
{
    for (int r = 0; r < s->rows; r++)
        if (s->row[r].verb == verb && s->row[r].chunk == chunk && s->row[r].micro == micro) return r;
    fail_msg("no %s of %d", schedule_verb_name(verb), micro);
    return -1;
}

static int find_wait(const Schedule *s, ScheduleVerb verb, int chunk, int micro)
{
    int posted = find(s, verb, chunk, micro);
    for (int r = 0; r < s->rows; r++)
        if (s->row[r].verb == WAIT && s->row[r].posted == posted) return r;
    fail_msg("there is no WAIT for %s of %d", schedule_verb_name(verb), micro);
    return -1;
}

static void swap(Schedule *s, int a, int b)    /* waits follow the rows they are for */
{
    for (int r = 0; r < s->rows; r++) {
        if (s->row[r].verb != WAIT) continue;
        if (s->row[r].posted == a) s->row[r].posted = b;
        else if (s->row[r].posted == b) s->row[r].posted = a;
    }
    ScheduleRow row = s->row[a];
    s->row[a] = s->row[b];
    s->row[b] = row;
}

static void move(Schedule *s, int from, int to)
{
    for (; from < to; from++) swap(s, from, from + 1);
    for (; from > to; from--) swap(s, from, from - 1);
}

static void drop(Schedule *s, int row)
{
    move(s, row, s->rows - 1);
    s->rows--;
}

#define ROW(stage, verb, micro) all[stage].row[find(&all[stage], verb, 0, micro)]
#define AT(stage, verb, micro)  &all[stage], find(&all[stage], verb, 0, micro)
#define OF(stage, verb, micro)  &all[stage], find_wait(&all[stage], verb, 0, micro)
#define ROW_OF(stage, verb, micro) find(&all[stage], verb, 0, micro)

static void swapped_rows  (Schedule *all) { swap(AT(2, FORWARD, 1), ROW_OF(2, BACKWARD_INPUT, 1)); }
static void forward_late  (Schedule *all) { swap(AT(0, FORWARD, 0), ROW_OF(0, FORWARD, 1)); }
static void recv_wait     (Schedule *all) { drop(OF(1, RECV, 1)); }
static void send_wait     (Schedule *all) { drop(OF(1, SEND, 1)); }
static void grad_wait     (Schedule *all) { drop(OF(0, RECV_GRAD, 0)); }
static void last_wait     (Schedule *all) { drop(OF(2, SEND_GRAD, 3)); }
static void live_slot     (Schedule *all) { ROW(0, FORWARD, 1).slot = ROW(0, FORWARD, 0).slot; }
static void slot_above    (Schedule *all) { all[0].slots--; }
static void slot_unused   (Schedule *all) { all[0].slots++; }
static void other_slot    (Schedule *all) { ROW(0, BACKWARD_INPUT, 0).slot = 1; }
static void wrong_micro   (Schedule *all) { ROW(0, SEND, 1).micro = 2; }
static void sent_twice    (Schedule *all) { ROW(0, SEND, 1).micro = 0; }
static void wrong_peer    (Schedule *all) { ROW(0, SEND, 1).peer = 2; }
static void receive_order (Schedule *all) { swap(AT(1, RECV, 0), ROW_OF(1, RECV, 1)); }
static void weight_first  (Schedule *all) { swap(AT(1, BACKWARD_INPUT, 2), ROW_OF(1, BACKWARD_WEIGHT, 2)); }
static void weights_mixed (Schedule *all) { swap(AT(2, BACKWARD_WEIGHT, 0), ROW_OF(2, BACKWARD_WEIGHT, 1)); }
static void no_reduce     (Schedule *all) { drop(AT(1, REDUCE, -1)); }
static void early_reduce  (Schedule *all) { move(AT(1, REDUCE, -1), ROW_OF(1, BACKWARD_WEIGHT, 3)); }
static void no_step       (Schedule *all) { all[2].rows--; }
static void early_step    (Schedule *all) { move(&all[0], all[0].rows - 1, 4); }
static void third_receive (Schedule *all) { move(AT(0, RECV_GRAD, 2), 2); }
static void third_send    (Schedule *all) { move(OF(2, SEND_GRAD, 0), all[2].rows - 2); }
static void other_buffer  (Schedule *all) { ROW(2, SEND_GRAD, 1).buffer = 0; }
static void no_buffer     (Schedule *all) { ROW(2, SEND_GRAD, 1).buffer = 2; }
static void fused_receives(Schedule *all) { ROW(1, RECV_GRAD, 1).verb = RECV; }
static void cut           (Schedule *all) { all[1].rows = ROW_OF(1, FORWARD, 2); }
static void other_pipeline(Schedule *all) { all[1].micros = 3; }
static void crossed_data  (Schedule *all) { move(OF(0, RECV_GRAD, 0), ROW_OF(0, SEND, 0)); }

/* Stage 0 waits for its send of 2, stage 1 for its gradient of 0, and neither has posted what the other waits for. */
static void crossed_waits(Schedule *all)
{
    move(OF(0, SEND, 2), ROW_OF(0, SEND, 2) + 1);
    move(AT(0, RECV_GRAD, 0), find_wait(&all[0], SEND, 0, 2));
    move(AT(0, RECV_GRAD, 1), ROW_OF(0, RECV_GRAD, 0));
    move(OF(1, SEND_GRAD, 0), ROW_OF(1, SEND_GRAD, 0) + 1);
}

static void above_peak(Schedule *all)
{
    ROW(2, RECV, 1).slot = all[2].slots++;
    move(AT(2, RECV, 1), 0);
}

static void slot_to_spare(Schedule *all)      /* receives posted later than they could be */
{
    for (int micro = 3; micro > 0; micro--) move(AT(2, RECV, micro), find_wait(&all[2], RECV, 0, micro) - 1);
}

static const struct {
    void (*damage)(Schedule *all);
    ScheduleKind kind;
    int stage;
    const char *words;
} damages[] = {
    { swapped_rows,   SCHEDULE_1F1B,    2, "its FORWARD has not been done" },
    { forward_late,   SCHEDULE_1F1B,    0, "next one of this chunk is micro-batch 0" },
    { recv_wait,      SCHEDULE_1F1B,    1, "its RECV has not been waited for" },
    { send_wait,      SCHEDULE_1F1B,    1, "its SEND has not been waited for" },
    { grad_wait,      SCHEDULE_1F1B,    0, "its RECV_GRAD has not been waited for" },
    { last_wait,      SCHEDULE_1F1B,    2, "1 messages have not been waited for" },
    { live_slot,      SCHEDULE_1F1B,    0, "writes slot 0, which chunk 0, micro-batch 0 still uses" },
    { slot_above,     SCHEDULE_1F1B,    0, "there is no slot 2 of 2" },
    { slot_unused,    SCHEDULE_1F1B,    0, "there are 4 slots where 3 are enough" },
    { other_slot,     SCHEDULE_1F1B,    0, "its slot is 0, not 1" },
    { wrong_micro,    SCHEDULE_1F1B,    0, "its FORWARD has not been done" },
    { sent_twice,     SCHEDULE_1F1B,    0, "done twice" },
    { wrong_peer,     SCHEDULE_1F1B,    0, "its other end is stage 1, not 2" },
    { receive_order,  SCHEDULE_1F1B,    1, "of stage 0 (SEND, chunk 0, micro-batch 0)" },
    { weight_first,   SCHEDULE_1F1B,    1, "its BACKWARD_INPUT has not been done" },
    { weights_mixed,  SCHEDULE_ZB_H1,   2, "next one of this chunk is micro-batch 0" },
    { no_reduce,      SCHEDULE_ZB_H1,   1, "chunk 0 has not been reduced" },
    { early_reduce,   SCHEDULE_1F1B,    1, "3 of 4 weight gradients have been computed" },
    { no_step,        SCHEDULE_1F1B,    2, "ends with its only STEP" },
    { early_step,     SCHEDULE_1F1B,    0, "ends with its only STEP" },
    { third_receive,  SCHEDULE_1F1B,    0, "gradient buffer 0 is in use by micro-batch 0" },
    { third_send,     SCHEDULE_1F1B,    2, "gradient buffer 0 is in use by micro-batch 0" },
    { other_buffer,   SCHEDULE_1F1B,    2, "gradient buffer 0 holds micro-batch 0" },
    { no_buffer,      SCHEDULE_1F1B,    2, "there is no gradient buffer 2" },
    { fused_receives, SCHEDULE_1F1B,    1, "there is no slot -1 of 2" },
    { cut,            SCHEDULE_1F1B,    1, "ends with its only STEP" },
    { other_pipeline, SCHEDULE_1F1B,    1, "is of another pipeline" },
    { crossed_data,   SCHEDULE_1F1B,    0, "deadlock" },
    { crossed_waits,  SCHEDULE_1F1B,    0, "deadlock" },
    { above_peak,     SCHEDULE_1F1B,    2, "2 slots are in use where schedule_peak says 1" },
    { slot_to_spare,  SCHEDULE_FORWARD, 2, "at most 1 slots were in use where schedule_peak says 2" },
    { recv_wait,      SCHEDULE_FORWARD, 1, "its RECV has not been waited for" },
    { wrong_micro,    SCHEDULE_FORWARD, 0, "its FORWARD has not been done" },
    { send_wait,      SCHEDULE_FORWARD, 1, "which chunk 0, micro-batch 1 still uses" },
};

static void test_damage(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof damages / sizeof *damages; d++) {
        Schedule all[3];
        char where[64];
        make_all(all, damages[d].kind, 3, 1, 4);
        damages[d].damage(all);
        if (schedule_check(all, 3) != BAD_OPTION) fail_msg("damage %zu is not seen", d);
        snprintf(where, sizeof where, "%s, stage %d row ", schedule_name(damages[d].kind), damages[d].stage);
        assert_contains(fail_text(), where);
        assert_contains(fail_text(), damages[d].words);
        free_all(all, 3);
    }
}

/* With two stages activations and gradients of all chunks go the same way, and must not be taken for each other. */
static void expect_mixed(ScheduleVerb verb, int chunk)
{
    Schedule all[2];
    make_all(all, SCHEDULE_INTERLEAVED, 2, 2, 4);
    move(&all[1], find(&all[1], verb, chunk, 0), 0);
    assert_int_equal(schedule_check(all, 2), BAD_OPTION);
    assert_contains(fail_text(), "stage 1 row 0 ");
    assert_contains(fail_text(), "of stage 0 (SEND, chunk 0, micro-batch 0)");
    free_all(all, 2);
}

static void test_mixed_messages(void **state)
{
    (void)state;
    expect_mixed(RECV_GRAD, 0);
    expect_mixed(RECV, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_orders),  cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_damage),  cmocka_unit_test(test_mixed_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
