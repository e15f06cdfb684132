/* A sum over ranks advances while a rank computes: beside it runs one operation again and again, and nothing but what the operation's
 * own loops call (team_poll_hook) can complete it. */
#include "train/harness.h"

enum { RANKS = 2, COUNT = 1 << 16, TURNS = 5000 };
typedef struct { const char *name; bool done[RANKS]; } Beside;
static int turns_most = TURNS;
static Beside beside[] = { { "matmul_forward", { 0 } }, { "attention_forward", { 0 } }, { "attention_backward", { 0 } } };
enum { BESIDE = sizeof beside / sizeof *beside };

typedef struct { Tensor x, w, y, qo, kv, lse, delta; } Operands;

static Tensor filled(Queue *q, Tensor x)
{
    fill_zero(q, (FillZero){ .y = x });
    return x;
}

static Operands operands_of(Queue *q, Arena *a)
{
    enum { T = 128, C = 512, S = 256, H = 4, D = 64 };
    return (Operands){ filled(q, tensor_new(a, "x", F32, T, C)), filled(q, tensor_new(a, "w", F32, C, C)),
        filled(q, tensor_new(a, "y", F32, T, C)), filled(q, tensor_new(a, "q", F32, 1, S, H, D)),
        filled(q, tensor_new(a, "k", F32, 1, S, H, D)), filled(q, tensor_new(a, "lse", F32, 1, S, H)),
        filled(q, tensor_new(a, "delta", F32, 1, S, H)) };
}

static void perform(Queue *q, int which, const Operands *o)
{
    const AttentionRule rule = { .scale = 0.125, .heads = 4, .span = 256 };
    if (which == 0) matmul_forward(q, (MatmulForward){ .y_TK = o->y, .x_TC = o->x, .w_KC = o->w });
    if (which == 1) attention_forward(q, (AttentionForward){ .o = o->qo, .lse = o->lse, .q = o->qo, .k = o->kv, .v = o->kv, .rule = rule });
    if (which == 2) attention_backward(q, (AttentionBackward){ .dq = o->qo, .dk = o->kv, .dv = o->kv, .d_o = o->qo, .q = o->qo,
        .k = o->kv, .v = o->kv, .lse = o->lse, .delta = o->delta, .rule = rule });
}

/* All elements, the last that is written among them */
static bool is_sum(const volatile float *x)
{
    for (int i = 0; i < COUNT; i++)
        if (x[i] != (float)(RANKS * (RANKS + 1) / 2)) return false;
    return true;
}

static void look(Trainer *t, void *context)
{
    (void)context;
    Arena arena, workspace, *before = t->queue.workspace;
    Queue *q = &t->queue;
    CHECK(arena_open(&arena, "test", 16 << 20) == OK && arena_open(&workspace, "workspace of the test", 16 << 20) == OK, "%s", fail_text());
    q->workspace = &workspace;
    Operands o = operands_of(q, &arena);
    Tensor x = tensor_new(&arena, "sum", F32, COUNT);
    for (int which = 0; which < BESIDE; which++) {
        size_t mark = arena_mark(&arena);
        for (int i = 0; i < COUNT; i++) ((float *)x.data)[i] = (float)(t->mesh.rank + 1);
        comm_barrier(t->comms.world);
        Pending pending = comm_all_reduce_begin(t->comms.world, q, x, &arena);                    /* <-> all ranks */
        for (int turn = 0; turn < turns_most && !is_sum(x.data); turn++) perform(q, which, &o);
        beside[which].done[t->mesh.rank] = is_sum(x.data);
        comm_barrier(t->comms.world);
        comm_wait(t->comms.world, pending);
        assert_true(is_sum(x.data));
        arena_reset(&arena, mark);
    }
    q->workspace = before;
    arena_close(&workspace);
    arena_close(&arena);
}

static Job job_of(bool no_overlap)
{
    Job job = { .config = tiny_config(MODEL_GPT, "cpu", scratch_path("corpus")), .ranks = RANKS, .steps = 1, .look = look };
    job.config.no_overlap = no_overlap;
    return job;
}

static void test_within(void **state)
{
    (void)state;
    Job job = job_of(false);
    job_run(&job);
    for (int which = 0; which < BESIDE; which++)
        for (int r = 0; r < RANKS; r++)
            if (!beside[which].done[r])
                fail_msg("rank %d: %d times %s, and a sum that was begun before is not complete", r, TURNS, beside[which].name);
}

/* Else the test above could not fail. */
static void test_not_without(void **state)
{
    (void)state;
    turns_most = 20;
    Job job = job_of(true);
    job_run(&job);
    for (int which = 0; which < BESIDE; which++)
        if (beside[which].done[0]) fail_msg("%s: a sum is complete though nothing polled", beside[which].name);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_within), cmocka_unit_test(test_not_without) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
