/* A dry run counts a step of many micro-batches without running all of them: bytes of arenas and slots,
 * calls, flops and bytes of every op, and calls and payload of every comm are those of the whole step, run
 * dry. And dry runs leak no memory. */
#include <malloc.h>
#include "train/measure.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/layouts.h"

static Comm *comm_at(const Trainer *t, int i) { return i < t->comms.count ? t->comms.all[i] : t->comms.world; }

static int imax(int a, int b) { return a > b ? a : b; }

static void remake(Schedule *s, const Trainer *t, int micros)
{
    Schedule few = *s;
    schedule_free(s);
    few.shape.micros = micros;
    few.shape.group  = t->config->micro_group;
    if (schedule_make(s, &few.shape, few.stage) != OK) fail_msg("%s", fail_text());
}

/* All of it, as trainer_count does for few micro-batches */
static void count_whole(Trainer *t, ArenaSizes *sizes)
{
    remake(t->train.schedule, t, t->train.micros);
    remake(&t->valid.schedule, t, t->valid.micros);
    t->train.pipeline.rows = t->train.schedule->rows;
    t->train.pipeline.pending = realloc(t->train.pipeline.pending, (size_t)t->train.pipeline.rows * sizeof *t->train.pipeline.pending);
    *sizes = (ArenaSizes){ .bytes = { 0 } };
    trainer_step(t);
    trainer_evaluate(t, 1, NULL, NULL);
    sizes->slot = stage_executor_slot_bytes(&t->train.executor);
    for (int i = 0; i < t->train.executor.slots; i++) arena_push(&t->arena[ARENA_ACTIVATIONS], "slots", sizes->slot);
    for (int i = 0; i < ARENAS; i++) sizes->bytes[i] = t->arena[i].peak;
}

static void compare_counts(const Trainer *whole, const Trainer *few, const char *name)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const OpCount *a = &whole->queue.count[op], *b = &few->queue.count[op];
        if (a->calls != b->calls || a->flops != b->flops || a->bytes != b->bytes)
            fail_msg("%s, %s: %lld calls, %.17g flops, %.17g bytes; the whole step has %lld, %.17g, %.17g", name, op_name(op),
                     (long long)b->calls, b->flops, b->bytes, (long long)a->calls, a->flops, a->bytes);
    }
    for (int i = 0; i <= whole->comms.count; i++)
        for (SentVerb v = 0; comm_at(whole, i) && v < SENT_VERBS; v++) {
            Sent a = comm_sent(comm_at(whole, i), v), b = comm_sent(comm_at(few, i), v);
            if (a.calls != b.calls || a.bytes != b.bytes)
                fail_msg("%s, %s of %s: %lld calls, %lld bytes; the whole step has %lld, %lld", name, sent_verb_name(v),
                         comm_name(comm_at(whole, i)), (long long)b.calls, (long long)b.bytes, (long long)a.calls, (long long)a.bytes);
        }
}

static void compare_rank(const TrainConfig *config, const Layout *layout, int rank)
{
    Trainer whole, few;
    ArenaSizes a, b;
    Transport *transport = transport_dry_open(rank, layout->ranks);
    if (trainer_open(&whole, config, transport, NULL) != OK || trainer_open(&few, config, transport, NULL) != OK) fail_msg("%s", fail_text());
    count_whole(&whole, &a);
    trainer_count(&few, &b);
    for (int i = 0; i < ARENAS; i++) {
        if (a.bytes[i] != b.bytes[i]) fail_msg("%s: arena %s of %zu bytes, the whole step takes %zu", layout->name, few.arena[i].name, b.bytes[i], a.bytes[i]);
        assert_int_equal(few.arena[i].tags, whole.arena[i].tags);
        for (int tag = 0; tag < few.arena[i].tags; tag++) assert_int_equal(few.arena[i].tag[tag].peak, whole.arena[i].tag[tag].peak);
    }
    assert_int_equal(a.slot, b.slot);
    assert_int_equal(few.train.executor.slots, imax(whole.train.schedule->slots, whole.valid.schedule.slots));
    compare_counts(&whole, &few, layout->name);
    trainer_close(&whole);
    trainer_close(&few);
    transport->close(transport);
}

static void test_layouts(void **state)
{
    (void)state;
    for (int i = 0; i < LAYOUTS; i++)
        for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++)
            /* multiples of the stages, some below 4 groups of them */
            for (int64_t micros = 4; micros <= 36; micros += 8) {
                TrainConfig config = tiny_config(model, "cpu", "none");
                config_set_layout(&config, &layouts[i]);
                int64_t m = micros, group = layouts[i].group;         /* the next number that the schedule takes */
                while (group > 0 && m % group != 0 && m % group < layouts[i].pp) m++;
                config.global = m * config.micro * (layouts[i].ranks / (config.tp * config.cp * config.pp));
                config.eval_iters = 2;
                if (model == MODEL_LLAMA)
                    config.precision = (PrecisionChoice){ .mixed = MIXED_BF16,
                        .fp8 = { .recipe = i % 2 ? FP8_CURRENT : FP8_DELAYED, .history = 3 } };
                for (int rank = 0; rank < layouts[i].ranks; rank++) compare_rank(&config, &layouts[i], rank);
            }
}

/* What a dry run works through does not grow with the micro-batches of a step, only what it counts does. */
static void test_many_micro_batches(void **state)
{
    (void)state;
    static const Layout many[] = { { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
                                   { "pp8 v4", 8, 1, 1, 8, 4, 0, false, SCHEDULE_INTERLEAVED } };
    for (size_t l = 0; l < sizeof many / sizeof *many; l++) {
        int rows[2][2];
        double flops[2];
        for (int i = 0; i < 2; i++) {
            Trainer t;
            ArenaSizes sizes;
            TrainConfig config = tiny_config(MODEL_GPT, "cpu", "none");
            config_set_layout(&config, &many[l]);
            config.model.layers = 32;
            config.global = i ? 16384 : 1536;
            Transport *transport = transport_dry_open(0, many[l].ranks);
            if (trainer_open(&t, &config, transport, NULL) != OK) fail_msg("%s", fail_text());
            trainer_count(&t, &sizes);
            rows[i][0] = t.train.schedule->rows;
            rows[i][1] = t.valid.schedule.rows;
            flops[i]   = queue_flops(&t.queue);
            trainer_close(&t);
            transport->close(transport);
        }
        assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
        assert_true(rows[0][0] < 2000);
        assert_float_equal(flops[1] / flops[0], 16384.0 / 1536, 1e-12);
    }
}

/* Bytes of this process's addresses; 0 where a sanitizer has addresses of its own, and reports leaks
 * itself */
static long addresses(void)
{
    long pages = 0;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
#endif
    return pages * sysconf(_SC_PAGESIZE);
}

/* Heap and addresses after more and more dry runs: what each of them kept would show, 32 bytes in the heap
 * even */
static void test_nothing_kept(void **state)
{
    (void)state;
    TrainConfig config = tiny_config(MODEL_GPT, "cpu", "none");
    const Layout layout = { "pp4 dp2", 8, 1, 1, 4, 1, 1, false, SCHEDULE_ZB_H1 };
    config_set_layout(&config, &layout);
    size_t heap_first = 0;
    long addresses_first = 0;
    for (int turn = 0; turn < 8; turn++) {
        ArenaSizes sizes;
        for (int rank = 0; rank < 8; rank++)
            if (trainer_measure(&sizes, &config, rank, 8) != OK) fail_msg("%s", fail_text());
        struct mallinfo2 info = mallinfo2();
        size_t heap = info.uordblks + info.hblkhd;
        if (turn == 1) { heap_first = heap; addresses_first = addresses(); }
        /* what the allocator keeps for itself is there by now, give or take a few pieces */
        if (turn < 2) continue;
        if (heap > heap_first + 1024) fail_msg("%zu bytes more of heap after %d dry runs more", heap - heap_first, 8 * (turn - 1));
        if (addresses() > addresses_first + (1 << 20)) fail_msg("%ld bytes more of addresses", addresses() - addresses_first);
    }
}

/* Each rank with options of its own: rank 1's fit no layout. */
static Status start_one_bad(Transport *transport, void *context)
{
    Trainer t;
    TrainConfig r = *(const TrainConfig *)context;
    if (transport->rank == 1) r.tp = 3;
    Status status = trainer_start(&t, &r, transport);
    trainer_close(&t);
    return status != OK && strstr(fail_text(), "rank 1 on ") ? INTERRUPTED : OK;       /* INTERRUPTED: it heard of the other */
}

static void test_one_fails(void **state)
{
    (void)state;
    TrainConfig r = tiny_config(MODEL_GPT, "cpu", "none");
    const Layout layout = { "dp2", 2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };
    config_set_layout(&r, &layout);
    assert_int_equal(transport_threads_run(2, start_one_bad, &r), INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts), cmocka_unit_test(test_many_micro_batches), cmocka_unit_test(test_nothing_kept),
                                        cmocka_unit_test(test_one_fails) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
