/* The tables of the back end `cuda` and of its dry twin, and what a queue on a GPU is. */
#include <stdlib.h>
#include "tensor/cuda/device.h"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/product.h"

/* The types that the kernels take. Statistics and gradients of weights are F32. */
enum { ACTIVATIONS = 1u << F32 | 1u << BF16 | 1u << F16, STATES = 1u << F32 };

static size_t cuda_workspace(const Queue *q, int op, const void *arguments)
{
    switch (op) {
#define KERNEL(name, Struct)
#define KERNEL_WORKSPACE(name, Struct) case OP_##name: return cuda_##name##_workspace(q, arguments);
#include "tensor/cuda/kernels.def"
    }
    return 0;
}

static const char *cuda_slow(int op, const void *arguments)
{
    if (op == OP_attention_forward)  return cuda_attention_forward_slow(arguments);
    if (op == OP_attention_backward) return cuda_attention_backward_slow(arguments);
    return NULL;
}

/* Rows without a kernel are NULL. */
static const Backend cuda_backend = {
    .name = "cuda", .compute = F32, .activation = ACTIVATIONS, .state = STATES, .workspace = cuda_workspace,
    .device = true,
#define KERNEL(name, Struct) .name = cuda_##name,
#include "tensor/cuda/kernels.def"
};

#define OP(heat, name, Struct, types, ...) \
    static void dry_##name(Queue *q, const Struct *a) { (void)q, (void)a; }
#include "tensor/ops.def"
#undef OP

static const Backend dry_cuda_backend = {
    .name = "dry-cuda", .compute = F32, .activation = ACTIVATIONS, .state = STATES, .dry = true,
    .device = true, .measured = &cuda_backend, .workspace = cuda_workspace,
    .slow = cuda_slow,
#define OP(heat, name, Struct, types, ...) .name = dry_##name,
#include "tensor/ops.def"
#undef OP
};

static Status stream_open(Queue *q, int number)
{
    GpuStream *s = q->device;
    TRY(gpu_stream_open(s, number));
    Status status = products_open(&s->products, s);
    if (status == OK && q->host_state) {
        q->step_state   = gpu_alloc(sizeof *q->step_state);
        q->pinned_state = gpu_host_alloc(sizeof *q->step_state);
        if (q->step_state && q->pinned_state) return OK;
        status = fail(NO_MEMORY, "%s or the host has no memory left; nvidia-smi shows which programs hold "
                      "that of the GPU", s->name);
        gpu_free(q->step_state);
        gpu_host_free(q->pinned_state);
    }
    if (status == OK) return OK;
    products_close(s->products);
    gpu_stream_close(s);
    return status;
}

Status cuda_queue_open(Queue *q, bool dry, int number)
{
    q->backend = dry ? &dry_cuda_backend : &cuda_backend;
    q->step_state = q->host_state;
    if (dry) return OK;
    q->device = calloc(1, sizeof(GpuStream));
    if (!q->device) return fail(NO_MEMORY, "no memory for a queue");
    Status status = stream_open(q, number);
    if (status == OK) {
        q->memory = &((GpuStream *)q->device)->memory;
        q->pinned = &((GpuStream *)q->device)->pinned;
    } else {
        free(q->device);
        q->device = NULL;
    }
    return status;
}

Status cuda_lane_open(Queue *lane, int number)
{
    GpuStream *s = lane->device = calloc(1, sizeof *s);
    if (!s) return fail(NO_MEMORY, "no memory for a queue");
    Status status = gpu_stream_open_urgent(s, number);
    lane->backend = &cuda_backend;
    if (status == OK) lane->memory = &s->memory;
    else {
        free(s);
        lane->device = NULL;
    }
    return status;
}

void cuda_queue_close(Queue *q)
{
    GpuStream *s = q->device;
    gpu_stream_wait(s);
    if (q->host_state) gpu_free(q->step_state);
    if (q->host_state) gpu_host_free(q->pinned_state);
    products_close(s->products);
    gpu_stream_close(s);
    free(s);
    q->device = NULL;
}

void cuda_queue_wait(Queue *q) { gpu_stream_wait(q->device); }

void cuda_queue_read(Queue *q, void *host, const void *device, size_t bytes)
{
    gpu_copy(q->device, host, device, bytes);
    gpu_stream_wait(q->device);
}

void cuda_queue_copy(Queue *q, void *to, const void *from, size_t bytes)
{
    gpu_copy(q->device, to, from, bytes);
}

bool  cuda_queue_passed(Queue *q)               { return gpu_stream_passed(q->device); }
void *cuda_event_open(void)                     { return gpu_event_open(); }
void  cuda_event_close(void *event)             { gpu_event_close(event); }
void  cuda_event_record(void *event, Queue *q)  { gpu_event_record(event, q->device); }
bool  cuda_event_passed(void *event)            { return gpu_event_passed(event); }
void  cuda_event_wait(void *event)              { if (!gpu_event_passed(event)) gpu_event_wait(event); }
void  cuda_queue_follow(Queue *q, void *event)  { gpu_stream_follow(q->device, event); }
void *cuda_queue_stream(const Queue *q)         { return ((const GpuStream *)q->device)->stream; }

Status cuda_facts(DeviceFacts *facts, int number) { return gpu_facts(facts, number); }
Status cuda_address(char *address, int bytes, int number) { return gpu_address(address, bytes, number); }

void *cuda_host_alloc(size_t bytes)   { return gpu_host_alloc(bytes); }
void  cuda_host_free(void *memory)    { gpu_host_free(memory); }

void cuda_queue_write(Queue *q, void *device, const void *host, size_t bytes)
{
    gpu_copy(q->device, device, host, bytes);
}
