/* In the place of the back end `cuda` in a program that was built without kernels for GPUs. */
#include "tensor/cuda/device.h"

Status cuda_queue_open(Queue *q, bool dry, int number)
{
    (void)q, (void)dry, (void)number;
    return fail(BAD_OPTION, "--device cuda: this program was built without kernels for GPUs; build it where "
                "cmake finds nvcc (JOTUN_CUDA=ON), or use --device cpu");
}

/* No queue has a device. */
void cuda_queue_close(Queue *q) { (void)q; }
void cuda_queue_copy(Queue *q, void *to, const void *from, size_t bytes)
{
    (void)q, (void)to, (void)from, (void)bytes;
}
void *cuda_host_alloc(size_t bytes) { (void)bytes; return NULL; }
void cuda_host_free(void *memory) { (void)memory; }
void cuda_queue_wait (Queue *q) { (void)q; }
void cuda_queue_read (Queue *q, void *host, const void *device, size_t bytes)
{
    (void)q, (void)host, (void)device, (void)bytes;
}
void cuda_queue_write(Queue *q, void *device, const void *host, size_t bytes)
{
    (void)q, (void)device, (void)host, (void)bytes;
}
