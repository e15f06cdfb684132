/* In the place of the back end `cuda` in a program that was built without kernels for GPUs. */
#include "tensor/cuda/device.h"

static Status refuse(void)
{
    return fail(BAD_OPTION, "--device cuda: this program was built without kernels for GPUs; build it where "
                "cmake finds nvcc (JOTUN_CUDA=ON), or use --device cpu");
}

Status cuda_queue_open(Queue *q, bool dry, int number)
{
    (void)q, (void)dry, (void)number;
    return refuse();
}

Status cuda_lane_open(Queue *lane, int number)
{
    (void)lane, (void)number;
    return refuse();
}

Status cuda_address(char *address, int bytes, int number)
{
    (void)address, (void)bytes, (void)number;
    return refuse();
}

Status cuda_facts(DeviceFacts *facts, int number)
{
    (void)facts, (void)number;
    return refuse();
}

/* No queue has a device. */
void cuda_queue_close(Queue *q) { (void)q; }
void cuda_queue_copy(Queue *q, void *to, const void *from, size_t bytes)
{
    (void)q, (void)to, (void)from, (void)bytes;
}
bool  cuda_queue_passed(Queue *q)              { (void)q; return true; }
void *cuda_event_open(void)                    { return NULL; }
void  cuda_event_close(void *event)            { (void)event; }
void  cuda_event_record(void *event, Queue *q) { (void)event, (void)q; }
bool  cuda_event_passed(void *event)           { (void)event; return true; }
void  cuda_event_wait(void *event)             { (void)event; }
void  cuda_queue_follow(Queue *q, void *event) { (void)q, (void)event; }
void *cuda_queue_stream(const Queue *q)        { (void)q; return NULL; }
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
