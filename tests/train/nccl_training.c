/* Training by several ranks with a device each, whose messages go by NCCL: emulated devices and an emulated NCCL (tests/tensor/shim), which
 * compares the calls of ranks and names a deadlock. Losses, gradient norms and evaluations are those of `cpu` within rounding, and the
 * same to the bit whatever the devices and streams do first. Arguments: part n of m of the layouts. */
#include "train/evaluation.h"
#include "train/step.h"
#include "train/cuda_job.h"

enum { GPT_FP32, LLAMA_BF16, LLAMA_FP16, MODELS };
static const int case_of[MODELS] = { [GPT_FP32] = 0, [LLAMA_BF16] = 3, [LLAMA_FP16] = 5 };
enum { SEEDS = 5 };                                       /* the last one: everything at once */
/* models: 1 GPT in fp32 + 2 Llama in bf16 + 4 in fp16; narrow: gradients are sent in bf16 */
typedef struct { Layout layout; int models; bool narrow; } Row;
/* ranks, tp, cp, pp, chunks, zero, sequence */
static const Row rows[] = {
    { { "dp 2",            2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 3 },
    { { "dp 2 zero 1",     2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B }, 7 },
    { { "dp 2 zero 2",     2, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B }, 2 },
    { { "dp 2 zero 3",     2, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B }, 3 },
    { { "tp 2",            2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 1 },
    { { "tp 2 sp",         2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B }, 6 },
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
        gpu_cpu_pace(seed < SEEDS ? GPU_CPU_DRAWN : GPU_CPU_AT_ONCE, (unsigned)seed);
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
        for (int m = 0; m < MODELS; m++)
            if (full || (rows[i].models >> m & 1))
                row_trains(&rows[i], &cases[case_of[m]], full ? SEEDS : rows[i].models >> m == 1);
    print_message("at most %d thread blocks of NCCL on a device at once\n", gpu_cpu_nccl_most());
}

/* `auto` is decided before the memory is measured: arenas are full to the byte with either. */
typedef struct { TrainConfig config; const char *wanted; } Start;

static Status start_rank(Transport *transport, void *context)
{
    const Start *start = context;
    Trainer t;
    TRY(trainer_start(&t, &start->config, transport));
    if (strcmp(transport->data->name, start->wanted) != 0) fail_msg("messages go by %s, not %s", transport->data->name, start->wanted);
    trainer_init(&t);
    for (int i = 0; i < 2; i++) trainer_step(&t);
    trainer_evaluate_split(&t, SPLIT_VALID);
    for (int i = 0; i < ARENAS; i++)
        if (t.arena[i].peak != t.arena[i].size) fail_msg("arena %s: %zu of %zu bytes", t.arena[i].name, t.arena[i].peak, t.arena[i].size);
    trainer_close(&t);
    return OK;
}

static void the_choice_is_measured(void **state)
{
    static const struct { int devices; DeviceTransport wanted; const char *name; } row[] = {
        { 2, DEVICE_AUTO, "nccl" }, { 1, DEVICE_AUTO, "staged" }, { 2, DEVICE_STAGED, "staged" }, { 2, DEVICE_NCCL, "nccl" } };
    (void)state;
    gpu_cpu_pace(GPU_CPU_LATE, 0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Start start = { layout_job(&cases[case_of[GPT_FP32]], "cuda", &rows[1]).config, row[i].name };
        start.config.device_transport = row[i].wanted;
        gpu_cpu_devices(row[i].devices);
        if (transport_threads_run(2, start_rank, &start) != OK) fail_msg("%s", fail_text());
    }
    Start forced = { layout_job(&cases[case_of[GPT_FP32]], "cuda", &rows[1]).config, "" };
    gpu_cpu_devices(1);
    assert_int_equal(transport_threads_run(2, start_rank, &forced), BAD_OPTION);
    if (!strstr(fail_text(), "--device-transport nccl: ranks 0 and 1 share GPU")) fail_msg("%s", fail_text());
}

static int setup(void **state)
{
    (void)state;
    corpus_make(scratch_path("corpus"), 61);
    return 0;
}

int main(int words, char **word)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_measured), cmocka_unit_test(layouts_train),
    };
    if (words == 3) part = atoi(word[1]), parts = atoi(word[2]);
    return cmocka_run_group_tests(tests, setup, NULL);
}
