/* Communication beside computation changes no bit: with and without it, on the host's transport, on one that runs the calls of a
 * communicator strictly in order, and on one whose messages are late. What it hides: overlap_delay_test. */
#include "train/layouts.h"
#include "train/moe_layouts.h"

static const Layout some[] = {
    { "dp2 zero0",           2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp2 zero1",           2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp3 zero1",           3, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp2 zero2",           2, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "dp2 zero3",           2, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "cp2 zero2",           2, 1, 2, 1, 1, 2, false, SCHEDULE_1F1B },
    { "tp2",                 2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq dp2 zero1",   4, 2, 1, 1, 1, 1, true,  SCHEDULE_1F1B },
    { "pp2 v2 dp2 zero3",    4, 1, 1, 2, 2, 3, false, SCHEDULE_INTERLEAVED },
    { "pp2 zb-h1 dp2 zero2", 4, 1, 1, 2, 1, 2, false, SCHEDULE_ZB_H1 },
    { "pp2 zb-v tp2 seq",    4, 2, 1, 2, 2, 0, true,  SCHEDULE_ZB_V },
    { "pp4 gpipe",           4, 1, 1, 4, 1, 0, false, SCHEDULE_GPIPE },
    { "pp3 1f1b extra",      3, 1, 1, 3, 1, 0, false, SCHEDULE_1F1B, .extra = 1 },
};
/* Experts, whose tokens go in one chunk, in two and in four */
static const MoeLayout moe_some[] = {
    { { "tp2 seq, etp2",           2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },  2, 1 },
    { { "dp2 zero1, ep2",          2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },  1, 2 },
    { { "pp2 zb-h1 dp2 zero3, ep2", 4, 1, 1, 2, 1, 3, false, SCHEDULE_ZB_H1 }, 1, 2 },
    { { "tp2 dp2 zero2, ep4",      4, 2, 1, 1, 1, 2, false, SCHEDULE_1F1B },  1, 4 },
};
enum { DENSE = sizeof some / sizeof *some, SOME = DENSE + sizeof moe_some / sizeof *moe_some, FEW = 3 };

static const char *name_of(int i) { return i < DENSE ? some[i].name : moe_some[i - DENSE].layout.name; }

static Job job_of(int i, ModelName model)
{
    const Layout *l = i < DENSE ? &some[i] : NULL;
    const char *data = scratch_path("corpus");
    if (!l) {
        Setup setup = moe_setup(moe_config(model, "ref", data), &moe_some[i - DENSE]);
        if (setup.config.ep == 4 && model == MODEL_GPT) setup.config.model.experts = 8, setup.config.model.moe.topk = 1;
        return setup_job(&setup, FEW, NULL, NULL);
    }
    Job job = { .config = tiny_config(model, "ref", data), .ranks = l->ranks, .steps = FEW };
    if (l->ranks == 3 && l->pp == 1) job.config.global = 6;
    config_set_layout(&job.config, l);
    return job;
}

static void same(const Job *a, const Job *b, const char *name, const char *how)
{
    for (int i = 0; i < FEW; i++)
        if (a->loss[i] != b->loss[i] || a->norm[i] != b->norm[i])
            fail_msg("%s, %s: step %d has loss %.17g and norm %.17g, not %.17g and %.17g", name, how, i, a->loss[i], a->norm[i],
                     b->loss[i], b->norm[i]);
}

static void test_bits(void **state)
{
    (void)state;
    for (int i = 0; i < SOME; i += turns(1, 3))
        for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
            Job apart = job_of(i, model), beside = job_of(i, model), late = job_of(i, model);
            apart.config.no_overlap = true;
            late.delay = 1e-4;
            job_run(&apart);
            job_run(&beside);
            same(&beside, &apart, name_of(i), "beside computation");
            if (model == MODEL_GPT) {
                job_run(&late);
                same(&late, &apart, name_of(i), "with late messages");
            }
        }
}

static void test_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < SOME; i += turns(1, 3)) {
        Job host = job_of(i, MODEL_GPT), ordered = job_of(i, MODEL_GPT);
        ordered.in_order = true;
        job_run(&host);
        job_run(&ordered);
        same(&ordered, &host, name_of(i), "in order");
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits), cmocka_unit_test(test_in_order) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
