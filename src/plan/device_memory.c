/* Memory of a GPU that other programs' code takes: the driver, cuBLASLt, NCCL. */
#include "plan/device_memory.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "tensor/gpu_model.h"

/* DRIVER: the context of a process with its kernels' code and stacks. PRODUCTS: code of cuBLASLt, loaded
 * kernel by kernel; its workspace is in an arena. LINK: 8 blocks of a communicator (comm/nccl.c), each with a
 * buffer of NCCL_BUFFSIZE, 4 MiB by NCCL's documentation, for a neighbour. */
enum { DRIVER = 512 << 20, PRODUCTS = 64 << 20, LINK = 8 * 4 << 20 };

/* Neighbours in the rings of NCCL: two of a communicator, one where it has two ranks. */
static int links_of(const Trainer *t)
{
    int links = 0;
    for (int i = 0; i < t->comms.count; i++)
        if (comm_size(t->comms.all[i]) > 1) links += comm_size(t->comms.all[i]) > 2 ? 2 : 1;
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
    if (b->links > 0) printf(", NCCL %s of %d links", log_bytes(text[2], b->nccl), b->links);
    printf(")\n");
    if (world > 1 && config->device_transport == DEVICE_STAGED)
        printf("besides, not counted: pinned memory of the host for the messages that are on their way\n");
    if (!config->gpu) return;
    double all = bytes + sum(b), has = config->gpu->bytes;
    printf("%s with %s: %s, %s", config->gpu->name, log_bytes(text[0], has),
           all <= has ? "fits" : "does not fit", log_bytes(text[1], all <= has ? has - all : all - has));
    printf(" %s\n", all <= has ? "are left" : "too much");
}
