/* Training by several ranks with a device each, whose messages go by NCCL: emulated devices and an emulated NCCL (tests/tensor/shim), which
 * compares the calls of ranks and names a deadlock. Losses, gradient norms and evaluations are those of `cpu` within rounding, and the
 * same to the bit whatever the devices and streams do first. Arguments: part n of m of the layouts. */
#include "train/cuda_job.h"

enum { SEEDS = 4 };
/* models: 1: GPT in fp32, 2: Llama in bf16, or both; narrow: gradients are sent in bf16 */
typedef struct { Layout layout; int models; bool narrow; } Row;
/* ranks, tp, cp, pp, chunks, zero, sequence */
static const Row rows[] = {
    { { "dp 2",            2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 3 },
    { { "dp 2 zero 1",     2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B }, 3 },
    { { "dp 2 zero 2",     2, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B }, 2 },
    { { "dp 2 zero 3",     2, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B }, 3 },
    { { "tp 2",            2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 1 },
    { { "tp 2 sp",         2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B }, 3 },
    { { "pp 2",            2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B }, 3 },
    { { "pp 2 interleaved", 2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED }, 1 },
    { { "pp 2 zb-h1",      2, 1, 1, 2, 1, 0, false, SCHEDULE_ZB_H1 }, 2 },
    { { "pp 2 zb-v",       2, 1, 1, 2, 2, 0, false, SCHEDULE_ZB_V }, 1 },
    { { "cp 2 ring",       2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B }, 3 },
    { { "cp 2 ulysses",    2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B, .ulysses = 2 }, 1 },
    { { "cp 2 gather",     2, 1, 2, 1, 1, 1, false, SCHEDULE_1F1B, .gather = 1 }, 2 },
    { { "dp 4 zero 1 hybrid 2", 4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B, .hybrid = 2 }, 2 },
    { { "dp 4 zero 3 hybrid 2", 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 }, 1 },
    { { "dp 2, bf16 sums", 2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 2, true },
    { { "dp 2 zero 1, bf16 sums", 2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B }, 2, true },
    { { "dp 4 zero 2 hybrid 2, bf16 sums", 4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 2 }, 2, true },
    { { "dp 2 zero 3, bf16 sums", 2, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B }, 2, true },
    { { "tp 2 pp 2 dp 2",  8, 2, 1, 2, 1, 1, true, SCHEDULE_1F1B }, 3 },
};
enum { ROWS = sizeof rows / sizeof *rows };

static int part, parts = 1;

static Job layout_job(const Case *c, const char *device, const Row *row)
{
    const Layout *layout = &row->layout;
    Job job = job_of(c, device);
    config_set_layout(&job.config, layout);
    job.config.model.layers = layout->chunks > 1 ? 4 : 2;
    job.ranks = layout->ranks;
    job.config.global = 4;
    job.config.device_transport = DEVICE_NCCL;
    job.config.precision.message_bf16 = row->narrow;
    gpu_cpu_devices(layout->ranks);
    return job;
}

static void row_trains(const Row *row, const Case *c, int seeds)
{
    Job cuda = layout_job(c, "cuda", row), cpu = layout_job(c, "cpu", row);
    print_message("%s, ", row->layout.name);
    gpu_cpu_pace(GPU_CPU_LATE, 0);
    job_run(&cuda);
    job_run(&cpu);
    compare(c, &cuda, &cpu, 1);
    for (int seed = 1; seed <= seeds; seed++) {
        Job again = layout_job(c, "cuda", row);
        gpu_cpu_pace(GPU_CPU_DRAWN, (unsigned)seed);
        job_run(&again);
        same_bits("in another order of devices and streams", &again, &cuda, 0);
    }
}

/* JOTUN_FULL: all layouts with both models and all seeds. */
static void layouts_train(void **state)
{
    bool full = getenv("JOTUN_FULL") != NULL;
    (void)state;
    for (int i = part; i < ROWS; i += parts)
        for (int m = 0; m < 2; m++)
            if (full || (rows[i].models >> m & 1))
                row_trains(&rows[i], &cases[m ? CASES - 1 : 0], full ? SEEDS : m == rows[i].models - 1 ? 1 : 0);
    print_message("at most %d thread blocks of NCCL on a device at once\n", gpu_cpu_nccl_most());
}

static int setup(void **state)
{
    (void)state;
    corpus_make(scratch_path("corpus"), 61);
    return 0;
}

int main(int words, char **word)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts_train) };
    if (words == 3) part = atoi(word[1]), parts = atoi(word[2]);
    return cmocka_run_group_tests(tests, setup, NULL);
}
