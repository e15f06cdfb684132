/* Memory of a GPU that other programs' code takes: the driver, cuBLASLt, NCCL. */
#include "plan/device_memory.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "comm/nccl.h"
#include "tensor/gpu_model.h"

/* DRIVER: the context of a process with its kernels' code and stacks. PRODUCTS: code of cuBLASLt, loaded
 * kernel by kernel; its workspace is in an arena. LINK: what the blocks of a communicator have for a
 * neighbour: buffers of NCCL's three protocols, 4, 4.7 and 0.5 MiB by its source. */
enum { DRIVER = 512 << 20, PRODUCTS = 64 << 20, LINK = NCCL_BLOCKS * (9421 << 10) };

/* Neighbours in the rings of NCCL: two of a communicator, one where it has two ranks. */
static int links_of(const Trainer *t)
{
    int links = 0;
    for (int i = 0; i <= t->comms.count; i++) {
        int ranks = comm_size(i < t->comms.count ? t->comms.all[i] : t->comms.world);
        links += ranks > 2 ? 2 : ranks - 1;
    }
    return links;
}

DeviceBesides device_besides(const Trainer *t)
{
    DeviceBesides b = { 0 };
    if (!t->queue.backend->device) return b;
    b.driver   = DRIVER;
    b.products = PRODUCTS;
    if (t->config->device_transport == DEVICE_STAGED) return b;
    b.links = links_of(t);
    b.nccl  = (double)b.links * LINK;
    return b;
}

static double sum(const DeviceBesides *b) { return b->driver + b->products + b->nccl; }

void device_memory_show(const TrainConfig *config, double bytes, const DeviceBesides *b, int world)
{
    char text[4][24];
    if (b->driver == 0) return;
    printf("besides, not measured: about %s of a GPU", log_bytes(text[0], sum(b)));
    printf(" (driver %s, cuBLASLt %s", log_bytes(text[0], b->driver), log_bytes(text[1], b->products));
    if (b->links > 0) printf(", NCCL %s of %d link%s", log_bytes(text[2], b->nccl), b->links,
                             b->links == 1 ? "" : "s");
    printf(")\n");
    if (world > 1 && config->device_transport == DEVICE_STAGED)
        printf("besides, not counted: pinned memory of the host for the messages that are on their way\n");
    if (!config->gpu) return;
    double all = bytes + sum(b), has = config->gpu->bytes;
    printf("%s with %s: %s, %s", config->gpu->name, log_bytes(text[0], has),
           all <= has ? "fits" : "does not fit", log_bytes(text[1], all <= has ? has - all : all - has));
    printf(" %s\n", all <= has ? "are left" : "too much");
}
