/* Schedules: exhaustively made and proved, their published figures, and damage that the checker must name. */
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "parallel/schedule.h"

enum { STAGES = 8, MICROS = 12 };

static int least(int a, int b) { return a < b ? a : b; }

static ScheduleShape shape_of(ScheduleKind kind, int p, int v, int m)
{
    return (ScheduleShape){ .kind = kind, .stages = p, .chunks = v, .micros = m, .v_shaped = kind == SCHEDULE_ZB_V };
}

static void make_all(Schedule *all, const ScheduleShape *shape)
{
    for (int i = 0; i < shape->stages; i++)
        if (schedule_make(&all[i], shape, i) != OK)
            fail_msg("p %d v %d m %d: %s", shape->stages, shape->chunks, shape->micros, fail_text());
}

static void free_all(Schedule *all, int p)
{
    for (int i = 0; i < p; i++) schedule_free(&all[i]);
}

/* ---- all small pipelines ---- */

static int published_peak(const ScheduleShape *s, int i)
{
    int p = s->stages, v = s->chunks, m = s->micros, group = s->group && p > 1 ? s->group : p;
    switch (s->kind) {
    case SCHEDULE_GPIPE:       return m;
    case SCHEDULE_1F1B:        return least(m, (1 + s->extra) * (p - i - 1) + 1 + (s->extra && i ? 1 : 0));
    case SCHEDULE_INTERLEAVED: return least(m * v, 2 * (p - i - 1) + (v - 1) * group + 1);
    case SCHEDULE_ZB_H1:       return least(m, p);
    case SCHEDULE_ZB_V:        return least(m, 2 * p - 1 - i) + least(m, i + 1);
    default:                   return p == 1 ? least(v, 2) : least(m * v, 2);
    }
}

static int alive_at_most(const Schedule *s)    /* training: what the checker counts, counted again */
{
    int live = 0, peak = 0;
    for (int r = 0; r < s->rows; r++) {
        int  from = schedule_before(&s->shape, s->stage, s->row[r].chunk);
        bool received = from >= 0 && from != s->stage;
        live += s->row[r].verb == RECV || (s->row[r].verb == FORWARD && !received);
        live -= s->row[r].verb == BACKWARD_WEIGHT;
        if (peak < live) peak = live;
    }
    return peak;
}

static void prove(const ScheduleShape *shape)
{
    Schedule *all = calloc((size_t)shape->stages, sizeof *all);
    make_all(all, shape);
    if (schedule_check(all, shape->stages) != OK)
        fail_msg("p %d v %d m %d group %d extra %d: %s", shape->stages, shape->chunks, shape->micros, shape->group,
                 shape->extra, fail_text());
    for (int i = 0; i < shape->stages; i++) {
        int peak = published_peak(shape, i);
        assert_int_equal(schedule_peak(shape, i), peak);
        if (shape->kind != SCHEDULE_FORWARD) assert_int_equal(alive_at_most(&all[i]), peak);
        assert_int_equal(all[i].slots, peak);
        for (int r = 0; r < all[i].rows && shape->stages == 1; r++) {
            ScheduleVerb verb = all[i].row[r].verb;
            assert_true(verb == FORWARD || verb == BACKWARD_INPUT || verb == BACKWARD_WEIGHT || verb >= REDUCE);
        }
    }
    free_all(all, shape->stages);
    free(all);
}

/* Every shape that is accepted up to 8 stages and 12 micro-batches: chunks, groups, extra warm-up, both ways of
 * placing virtual stages. */
static void test_exhaustive(void **state)
{
    (void)state;
    int proved = 0;
    for (int kind = 0; kind <= SCHEDULE_FORWARD; kind++)
        for (int n = 0; n < STAGES * MICROS * 4; n++)
            for (int group = 0; group <= (kind == SCHEDULE_INTERLEAVED ? MICROS : 0); group++)
                for (int extra = 0; extra <= (kind == SCHEDULE_1F1B ? 3 : 0); extra++)
                    for (int v_shaped = 0; v_shaped < 2; v_shaped++) {
                        ScheduleShape s = { kind, 1 + n % STAGES, 1 + n / STAGES % 4, 1 + n / STAGES / 4, v_shaped,
                                            group, extra, false };
                        if (schedule_accepts(&s) != OK) continue;
                        prove(&s);
                        proved++;
                        s.blocking = true;
                        if (schedule_accepts(&s) == OK) prove(&s);
                    }
    printf("%d shapes proved\n", proved);
    assert_true(proved > 2000);
    ScheduleShape many[] = { shape_of(SCHEDULE_INTERLEAVED, 8, 16, 64), shape_of(SCHEDULE_ZB_H1, 8, 1, 500),
                             shape_of(SCHEDULE_ZB_V, 64, 2, 512), shape_of(SCHEDULE_1F1B, 256, 1, 300) };
    for (int i = 0; i < 4; i++) prove(&many[i]);
}

static uint64_t drawn(uint64_t *at, uint64_t below) { return random_bits(random_key(10, "schedules"), (*at)++) % below; }

/* Large ones, drawn: 1,000 that are accepted. */
static void test_random(void **state)
{
    (void)state;
    uint64_t at = 0;
    for (int done = 0; done < 1000;) {
        int p = 1 + (int)drawn(&at, 32), m = 1 + (int)drawn(&at, 80);
        ScheduleShape s = { .kind = (ScheduleKind)drawn(&at, SCHEDULE_FORWARD + 1), .stages = p, .micros = m };
        s.v_shaped = s.kind == SCHEDULE_ZB_V || (s.kind == SCHEDULE_FORWARD && drawn(&at, 2));
        s.chunks   = s.v_shaped ? 2 : s.kind >= SCHEDULE_INTERLEAVED ? 1 + (int)drawn(&at, 5) : 1;
        if (s.kind == SCHEDULE_INTERLEAVED) s.group = drawn(&at, 2) ? p + (int)drawn(&at, 40) : 0;
        if (s.kind == SCHEDULE_1F1B) s.extra = (int)drawn(&at, 3);
        if (schedule_accepts(&s) != OK) continue;
        prove(&s);
        done++;
    }
}

/* ---- in-order transports ---- */

/* With one queue for all messages of two stages, as one communicator has, a transport that executes strictly in
 * order stops: 1F1B begins RECV_GRAD 0, RECV_GRAD 1, FORWARD 0, SEND 0, and the gradients come only after what is
 * queued behind them. Channels of their own let it go on. */
static void test_channels(void **state)
{
    (void)state;
    Schedule all[2];
    double *end;
    ScheduleShape shape = shape_of(SCHEDULE_1F1B, 2, 1, 3);
    ScheduleCost one = { .one_queue = true }, own = { .one_queue = false };
    make_all(all, &shape);
    assert_int_equal(all[0].row[0].verb, RECV_GRAD);
    assert_int_equal(all[0].row[1].verb, RECV_GRAD);
    assert_int_equal(all[0].row[2].verb, FORWARD);
    assert_int_equal(all[0].row[3].verb, SEND);
    assert_int_equal(schedule_replay(all, 2, &one, &end), BAD_OPTION);
    assert_contains(fail_text(), "deadlock");
    free(end);
    assert_int_equal(schedule_replay(all, 2, &own, &end), OK);
    free(end);
    free_all(all, 2);
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
    ScheduleShape shape = shape_of(kind, p, kind == SCHEDULE_ZB_V ? 2 : 1, m);
    assert_int_equal(schedule_make(&s, &shape, stage), OK);
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
    ScheduleShape blocking = shape_of(SCHEDULE_1F1B, 2, 1, 2);
    Schedule s;
    char text[1024];
    blocking.blocking = true;
    assert_int_equal(schedule_make(&s, &blocking, 0), OK);
    spell(text, &s, true);
    assert_string_equal(text, " F0 S0 ?S0 F1 S1 r0 ?S1 ?r0 B0 W0 r1 ?r1 B1 W1 REDUCE STEP");
    schedule_free(&s);
    expect_order(SCHEDULE_GPIPE, 2, 0, 3, false, " F0 F1 F2 B0 W0 B1 W1 B2 W2");
    expect_order(SCHEDULE_GPIPE, 2, 1, 2, true,
                 " R0 R1 ?R0 F0 ?R1 F1 B0 W0 s0 B1 W1 s1 REDUCE ?s0 ?s1 STEP");
    expect_order(SCHEDULE_ZB_V, 2, 0, 3, false, " F0 F1 F2 F0 B0 W0 F1 B1 W1 B0 W0 F2 B2 W2 B1 W1 B2 W2");
    expect_order(SCHEDULE_ZB_V, 2, 1, 3, true,
                 " R0 R1 r0 r1 ?R0 F0 F0 S0 ?R1 F1 F1 S1 ?r0 ?S0 B0 r2 W0 R2 ?R2 F2 B0 s0 W0 F2 S2 ?r1 ?S1 B1 W1 B1 s1"
                 " ?r2 ?S2 B2 ?s0 B2 s2 W1 W2 REDUCE W2 REDUCE ?s1 ?s2 STEP");
    expect_order(SCHEDULE_FORWARD, 2, 0, 3, true, " F0 S0 F1 S1 ?S0 F2 S2 ?S1 ?S2");
    expect_order(SCHEDULE_FORWARD, 2, 1, 3, true, " R0 R1 ?R0 F0 R2 ?R1 F1 ?R2 F2");
}

/* ---- bubbles ---- */

/* Idle time of the stage that is idle longest, of computations that take f, b, w per stage. */
static double bubble(const ScheduleShape *shape, double f, double b, double w, double message)
{
    Schedule all[STAGES];
    double idle[STAGES], v = shape->chunks, most = 0;
    ScheduleCost cost = schedule_cost(f / v, b / v, w / v);
    cost.message = message;
    make_all(all, shape);
    double last = schedule_simulate(all, shape->stages, &cost, idle);
    for (int i = 0; i < shape->stages; i++) if (most < idle[i]) most = idle[i];
    assert_float_equal(last, shape->micros * (shape->kind == SCHEDULE_FORWARD ? f : f + b + w) + most, 1e-9);
    free_all(all, shape->stages);
    return most;
}

static void expect_bubble(ScheduleShape shape, double f, double b, double w, double expected)
{
    double got = bubble(&shape, f, b, w, 0);
    if (got < expected - 1e-9 || got > expected + 1e-9)
        fail_msg("%s p %d v %d m %d group %d extra %d: idle %g, not %g", schedule_name(shape.kind), shape.stages,
                 shape.chunks, shape.micros, shape.group, shape.extra, got, expected);
}

/* The formulas of docs/howto/choose-a-layout.md. Backward takes b + w; b is no less than f, and f than w, as in the
 * papers. */
static void test_bubbles(void **state)
{
    (void)state;
    static const double times[][3] = { { 1, 1, 1 }, { 2, 3, 1 }, { 1, 1.2, 0.8 }, { 1, 1.5, 0.9 }, { 1, 1.3, 1 } };
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        double f = times[t][0], b = times[t][1], w = times[t][2];
        for (int p = 1; p <= STAGES; p++) {
            for (int m = 1; m <= 3 * MICROS; m++) {
                ScheduleShape extra = shape_of(SCHEDULE_1F1B, p, 1, m);
                extra.extra = 1;
                expect_bubble(shape_of(SCHEDULE_GPIPE, p, 1, m), f, b, w, (p - 1) * (f + b + w));
                expect_bubble(shape_of(SCHEDULE_1F1B, p, 1, m), f, b, w, (p - 1) * (f + b + w));
                expect_bubble(extra, f, b, w, (p - 1) * (f + b + w));
                expect_bubble(shape_of(SCHEDULE_FORWARD, p, 1, m), f, 0, 0, (p - 1) * f);
                if (m >= 2 * p - 1) expect_bubble(shape_of(SCHEDULE_ZB_H1, p, 1, m), f, b, w, (p - 1) * (f + b - w));
                if (m >= 2 * p - 1) expect_bubble(shape_of(SCHEDULE_ZB_V, p, 2, m), f, b, w, (p - 1) * (b / 2 > b - w ? b / 2 : b - w));
                for (int v = 1; v <= 4 && m % p == 0; v++)
                    expect_bubble(shape_of(SCHEDULE_INTERLEAVED, p, v, m), f, b, w, (p - 1) * (f + b + w) / v);
                if (p < 2 || m < 2 * p - 1) continue;
                ScheduleShape h1 = shape_of(SCHEDULE_ZB_H1, p, 1, m), one = shape_of(SCHEDULE_1F1B, p, 1, m);
                ScheduleShape zb = shape_of(SCHEDULE_ZB_V, p, 2, m);
                assert_true(bubble(&zb, f, b, w, 0) < bubble(&h1, f, b, w, 0));
                assert_true(bubble(&h1, f, b, w, 0) < bubble(&one, f, b, w, 0));
            }
        }
    }
    /* below p micro-batches only m - 1 weight gradients are there to fill with */
    for (int m = 1; m <= 8; m++)
        expect_bubble(shape_of(SCHEDULE_ZB_H1, 8, 1, m), 1, 1, 1, 14 - (m - 1));
    /* groups other than p change the memory and not the bubble */
    for (int group = 4; group <= 12; group++) {
        ScheduleShape s = shape_of(SCHEDULE_INTERLEAVED, 4, 3, 2 * group);
        s.group = group;
        expect_bubble(s, 1, 1, 1, 3);
    }
}

/* A message of time d costs 1F1B about 2 d of every micro-batch (d with two stages): a stage has nothing to do while
 * its output goes to the next stage and the gradient comes back. With one extra micro-batch it costs 2 d of every
 * stage once. */
static void test_messages(void **state)
{
    (void)state;
    for (int p = 2; p <= STAGES; p++)
        for (double d = 0.25; d <= 0.75; d += 0.25) {
            ScheduleShape plain = shape_of(SCHEDULE_1F1B, p, 1, 4 * p), extra = plain;
            extra.extra = 1;
            double none = 3 * (p - 1);
            assert_float_equal(bubble(&extra, 1, 1, 1, d), none + 2 * d * (p - 1), 1e-9);
            assert_true(bubble(&plain, 1, 1, 1, d) >= none + (p == 2 ? 1 : 2) * d * (4 * p - 3));
        }
}

typedef struct { int stage; double factor; } Slow;

static double slow_row(const ScheduleCost *cost, const Schedule *s, const ScheduleRow *row)
{
    const Slow *slow = cost->context;
    return cost->of[row->verb] * (s->stage == slow->stage ? slow->factor : 1);
}

/* Costs by row and stage: the slow one is idle only until its first forward, while the last stage has its first
 * micro-batch, and after its last backward. */
static void test_uneven_costs(void **state)
{
    (void)state;
    Schedule all[4];
    double idle[4];
    Slow slow = { 2, 2 };
    ScheduleShape shape = shape_of(SCHEDULE_1F1B, 4, 1, 20);
    ScheduleCost cost = schedule_cost(1, 1, 1);
    cost.row = slow_row;
    cost.context = &slow;
    make_all(all, &shape);
    double last = schedule_simulate(all, 4, &cost, idle);
    assert_float_equal(last, 20 * 6 + 7, 1e-9);
    assert_float_equal(idle[2], 7, 1e-9);
    assert_float_equal(idle[0], 7 + 20 * 3, 1e-9);
    free_all(all, 4);
    shape = shape_of(SCHEDULE_1F1B, 2, 1, 1);
    cost  = schedule_cost(1, 10, 100);
    make_all(all, &shape);
    double *end = schedule_ends(all, 2, &cost);
    assert_float_equal(end[all[0].rows - 1], 222, 0);                  /* F | F B W | B W */
    assert_float_equal(end[all[0].rows + all[1].rows - 1], 112, 0);
    free(end);
    free_all(all, 2);
}

/* ---- refusals ---- */

static void expect_refusal(ScheduleShape shape, int stage, const char *words)
{
    Schedule s;
    assert_int_equal(schedule_make(&s, &shape, stage), BAD_OPTION);
    assert_null(s.row);
    assert_contains(fail_text(), words);
}

static void test_refusals(void **state)
{
    (void)state;
    ScheduleShape group = shape_of(SCHEDULE_INTERLEAVED, 4, 2, 11), flat = shape_of(SCHEDULE_ZB_V, 4, 2, 8);
    group.group = 4;
    expect_refusal(shape_of(SCHEDULE_INTERLEAVED, 4, 2, 6), 0, "4 or 8 would work");
    expect_refusal(shape_of(SCHEDULE_INTERLEAVED, 4, 2, 3), 0, "4 or 8 would work");
    expect_refusal(group, 0, "leave 3 for the last group, which are fewer than 4 stages; 8 or 12 would work");
    group.group = 3;
    expect_refusal(group, 0, "groups of 3 micro-batches in a pipeline of 4 stages and 11 micro-batches; 4 to 11 work");
    group.group = 12;
    expect_refusal(group, 0, "4 to 11 work");
    flat.v_shaped = false;
    expect_refusal(flat, 0, "takes two v-shaped chunks per stage");
    expect_refusal(shape_of(SCHEDULE_ZB_V, 4, 3, 8), 0, "takes two chunks per stage, not 3");
    flat = shape_of(SCHEDULE_ZB_H1, 4, 1, 8);
    flat.extra = 1;
    expect_refusal(flat, 0, "1 extra forwards");
    flat = shape_of(SCHEDULE_INTERLEAVED, 2, 2, 4);
    flat.blocking = true;
    expect_refusal(flat, 0, "would wait for each other");
    expect_refusal(shape_of(SCHEDULE_1F1B, 2, 2, 4), 0, "interleaved takes several");
    expect_refusal(shape_of(SCHEDULE_GPIPE, 2, 2, 4), 0, "one chunk per stage, not 2");
    expect_refusal(shape_of(SCHEDULE_ZB_H1, 2, 2, 4), 0, "one chunk per stage, not 2");
    expect_refusal(shape_of(SCHEDULE_1F1B, 2, 1, 4), 2, "no stage 2 of 2");
    expect_refusal(shape_of(SCHEDULE_1F1B, 2, 1, 0), 0, "0 micro-batches");
    expect_refusal(shape_of(SCHEDULE_FORWARD, 2, CHUNKS_MAX + 1, 1), 0, "17 chunks");
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
static void other_pipeline(Schedule *all) { all[1].shape.micros = 3; }
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
        ScheduleShape shape = shape_of(damages[d].kind, 3, 1, 4);
        make_all(all, &shape);
        damages[d].damage(all);
        if (schedule_check(all, 3) != BAD_OPTION) fail_msg("damage %zu is not seen", d);
        snprintf(where, sizeof where, "%s, stage %d row ", schedule_name(damages[d].kind), damages[d].stage);
        assert_contains(fail_text(), where);
        assert_contains(fail_text(), damages[d].words);
        free_all(all, 3);
    }
}

/* A receive that is posted too early in its channel meets the message of another chunk. */
static void expect_mixed(int v, ScheduleVerb verb, int chunk, const char *words)
{
    Schedule all[2];
    ScheduleShape shape = shape_of(SCHEDULE_INTERLEAVED, 2, v, 4);
    make_all(all, &shape);
    move(&all[1], find(&all[1], verb, chunk, 0), 0);
    assert_int_equal(schedule_check(all, 2), BAD_OPTION);
    assert_contains(fail_text(), "stage 1 row 0 ");
    assert_contains(fail_text(), words);
    free_all(all, 2);
}

static void test_mixed_messages(void **state)
{
    (void)state;
    expect_mixed(3, RECV_GRAD, 0, "of stage 0 (SEND_GRAD, chunk 2, micro-batch 0)");
    expect_mixed(2, RECV, 1, "of stage 0 (SEND, chunk 0, micro-batch 0)");
}

/* At the turn of a V the next chunk is on the same stage: its gradient must be there, and its buffer free. */
static void test_turn(void **state)
{
    (void)state;
    Schedule all[2];
    ScheduleShape shape = shape_of(SCHEDULE_ZB_V, 2, 2, 4);
    make_all(all, &shape);
    all[1].row[find(&all[1], BACKWARD_INPUT, 0, 1)].buffer = 0;
    assert_int_equal(schedule_check(all, 2), BAD_OPTION);
    assert_contains(fail_text(), "(BACKWARD_INPUT, chunk 0, micro-batch 1)");
    free_all(all, 2);
    make_all(all, &shape);
    swap(&all[1], find(&all[1], FORWARD, 0, 2), find(&all[1], FORWARD, 1, 2));
    assert_int_equal(schedule_check(all, 2), BAD_OPTION);
    free_all(all, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_random),   cmocka_unit_test(test_channels),
        cmocka_unit_test(test_orders),     cmocka_unit_test(test_bubbles),  cmocka_unit_test(test_messages),
        cmocka_unit_test(test_uneven_costs), cmocka_unit_test(test_refusals), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_mixed_messages), cmocka_unit_test(test_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
