#ifndef TESTS_TRAIN_CUDA_JOB_H
#define TESTS_TRAIN_CUDA_JOB_H
/* Jobs of a tiny GPT and Llama on the back end `cuda`, and how far their losses may be from those of another device. */
#include "train/harness.h"
#ifdef GPU_CPU
#include "order.h"
#else
static void gpu_cpu_order(unsigned seed) { (void)seed; }
typedef enum { GPU_CPU_AT_ONCE, GPU_CPU_LATE, GPU_CPU_DRAWN } GpuCpuPace;
static void gpu_cpu_pace(GpuCpuPace pace, unsigned seed) { (void)pace, (void)seed; }
#endif

enum { STEPS = 3 };
typedef struct { const char *name; ModelName model; MixedPrecision mixed; double loss, norm; } Case;
/* Bounds: losses absolute, of about 4, and norms relative, against `cpu`; twice as much against `ref`. */
static const Case cases[] = {
    { "gpt fp32",   MODEL_GPT,   MIXED_NONE, 2e-6, 5e-6 },
    { "llama fp32", MODEL_LLAMA, MIXED_NONE, 2e-6, 5e-6 },
    { "gpt bf16",   MODEL_GPT,   MIXED_BF16, 2e-3, 1e-2 },
    { "llama bf16", MODEL_LLAMA, MIXED_BF16, 2e-3, 1e-2 },
    { "gpt fp16",   MODEL_GPT,   MIXED_F16,  3e-4, 2e-3 },
    { "llama fp16", MODEL_LLAMA, MIXED_F16,  3e-4, 2e-3 },
};
enum { CASES = sizeof cases / sizeof *cases };

static inline const uint16_t *bytes_of_ids(void)
{
    static uint16_t bytes[1 << 16];
    for (int i = 0; i < 1 << 16; i++) bytes[i] = (uint16_t)(1 + i % 5);
    return bytes;
}

static inline Job job_of(const Case *c, const char *device)
{
    Job job = { .config = tiny_config(c->model, device, scratch_path("corpus")), .ranks = 1, .steps = STEPS };
    job.config.model.layers = 2;
    job.config.global = 2;
    job.config.eval_iters = 1;
    job.config.id_bytes = bytes_of_ids(), job.config.ids = job.config.model.vocabulary;
    job.config.device_transport = DEVICE_STAGED;
    if (strcmp(device, "ref") == 0) return job;
    job.config.precision.mixed = c->mixed;
    if (c->mixed == MIXED_F16) job.config.scaling = (LossScaling){ true, 1, 2, 1 }, job.config.loss_scale = 0x1p10;
    return job;
}

static inline double apart(double a, double b) { return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY; }

static inline void compare(const Case *c, const Job *mine, const Job *other, double times)
{
    double loss = larger(apart(mine->first_valid, other->first_valid), apart(mine->valid, other->valid)), norm = 0;
    loss = larger(loss, mine->valid_bits > 0 ? apart(mine->valid_bits, other->valid_bits) : INFINITY);
    for (int s = 0; s < STEPS; s++) {
        loss = larger(loss, apart(mine->loss[s], other->loss[s]));
        norm = larger(norm, apart(mine->norm[s] / other->norm[s], 1));
    }
    print_message("%-10s against %s: losses within %.1e, norms %.1e\n", c->name, other->config.device, loss, norm);
    if (loss > times * c->loss || norm > times * c->norm)
        fail_msg("%s against %s: losses within %.1e (allowed %.1e), norms %.1e (%.1e)", c->name, other->config.device,
                 loss, times * c->loss, norm, times * c->norm);
}

static inline void same_bits(const char *what, const Job *mine, const Job *other, int from)
{
    for (int s = from; s < STEPS; s++)
        if (mine->loss[s - from] != other->loss[s] || mine->norm[s - from] != other->norm[s])
            fail_msg("%s: step %d has loss %.17g and norm %.17g, not %.17g and %.17g", what, s + 1,
                     mine->loss[s - from], mine->norm[s - from], other->loss[s], other->norm[s]);
    if (mine->valid != other->valid) fail_msg("%s: the evaluation differs", what);
}
#endif
