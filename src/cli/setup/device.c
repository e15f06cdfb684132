/* The device of --device auto: a GPU where every rank can compute the run on one, else the CPU. */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "cli/setup/setup.h"
#include "comm/device_data.h"
#include "tensor/gpu_model.h"
#include "train/measure.h"
#include "train/trainer_comms.h"

/* The system shows a GPU of NVIDIA or of AMD, whether this program can use it or not. */
static bool gpu_seen(void)
{
    glob_t found = { 0 };
    bool seen = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0;
    seen = seen || glob("/dev/kfd", GLOB_APPEND, NULL, &found) == 0;
    globfree(&found);
    return seen;
}

/* The message of a refusal without what it says to give, which is what is done here. */
static void take_reason(char why[DEVICE_WHY])
{
    snprintf(why, DEVICE_WHY, "%s", fail_text());
    why[strcspn(why, ";")] = '\0';
    const char *option = "--device cuda: ";
    size_t bytes = strlen(option);
    if (strncmp(why, option, bytes) == 0) memmove(why, why + bytes, strlen(why + bytes) + 1);
}

/* Whether the program has kernels, and the machine a GPU that works with them. */
static bool gpu_works(char why[DEVICE_WHY], const Transport *mpi)
{
    char name[32];
    Queue queue;
    snprintf(name, sizeof name, "cuda:%d", mpi ? trainer_device_number(mpi) : 0);
    if (queue_open(&queue, name, 1, NULL) != OK) {
        if (gpu_seen()) take_reason(why);
        else            snprintf(why, DEVICE_WHY, "%s", DEVICE_NONE);
        return false;
    }
    queue_close(&queue);
    return true;
}

/* The rank of this process; of ranks that are threads one of each stage, where other units are. */
static Status run_measured(const TrainConfig *config, const Options *o, const Transport *mpi)
{
    TrainConfig on_gpu = *config;
    ArenaSizes sizes;
    Mesh mesh;
    on_gpu.device = "cuda";
    if (mpi) return trainer_measure(&sizes, &on_gpu, mpi->rank, mpi->size);
    TRY(mesh_make(&mesh, (int)o->ranks, 0, train_config_mesh(&on_gpu)));
    for (int s = 0; s < on_gpu.pp; s++)
        TRY(trainer_measure(&sizes, &on_gpu, mesh_rank(&mesh, (MeshSize){ .pp = s }), (int)o->ranks));
    return OK;
}

static void reason(char why[DEVICE_WHY], const TrainConfig *config, const Options *o, const Transport *mpi)
{
    *why = '\0';
    if (!gpu_works(why, mpi)) return;
    if (config->kernels)
        snprintf(why, DEVICE_WHY, "--kernels %s are kernels of CPUs", o->kernels.word);
    else if (o->sample_interval > 0)
        snprintf(why, DEVICE_WHY, "samples of text (--sample-interval) are not built for GPUs");
    else if (run_measured(config, o, mpi) != OK)
        take_reason(why);
}

#ifndef JOTUN_OLDEST_GPU
#define JOTUN_OLDEST_GPU 80                           /* a build without kernels plans for any */
#endif

/* Of --gpu: one that the kernels are built for, whatever this machine has. */
static Status named_gpu(TrainConfig *config, const Options *o)
{
    char names[400];
    const GpuModel *gpu = gpu_model_named(o->gpu);
    if (!gpu) gpu = gpu_model_reported(o->gpu);
    if (!gpu)
        return fail(BAD_OPTION, "--gpu %s is not known; give one of %s", o->gpu,
                    gpu_model_names(names, sizeof names));
    if (gpu->capability * 10 < JOTUN_OLDEST_GPU)
        return fail(BAD_OPTION, "--gpu %s: this program has kernels for NVIDIA's GPUs of compute capability "
                    "%.1f and later; -DJOTUN_CUDA_ARCHITECTURES builds them from 8.0 (A100) on", gpu->name,
                    JOTUN_OLDEST_GPU / 10.0);
    config->gpu    = gpu;
    config->device = "cuda";
    return OK;
}

Status setup_device(TrainConfig *config, const Options *o, Transport *mpi)
{
    char mine[DEVICE_WHY], why[DEVICE_WHY];
    if (o->gpu) return named_gpu(config, o);
    if (o->device.value != CHOICE_device_auto) return OK;
    reason(mine, config, o, mpi);
    if (mpi) device_agree(why, mpi, mine);            /* <-> world; same on every rank */
    else     memcpy(why, mine, sizeof why);
    bool gpu = !*why, first = !mpi || mpi->rank == 0;
    config->device = gpu ? "cuda" : "cpu";
    if (first && !gpu && strcmp(why, DEVICE_NONE) != 0)
        log_line("--device auto: cpu, since %s", why);
    return OK;
}
