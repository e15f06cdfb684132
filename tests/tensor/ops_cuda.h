#ifndef TESTS_TENSOR_OPS_CUDA_H
#define TESTS_TENSOR_OPS_CUDA_H
/* One case of one op on ref and on the GPU's kernels, which run on a GPU or on the CPU by the shim. It takes the
 * place of the cpu back end's trial where OPS_CUDA is defined. */
#include "tensor/cuda/kernels.h"
#ifdef GPU_CPU
#include "shim/order.h"
static const unsigned orders[] = { 0, 7 };
#else
static const unsigned orders[] = { 0, 0 };
static void gpu_cpu_order(unsigned seed) { (void)seed; }
#endif

enum { DEVICE_WORKSPACE = 40 << 20 };
static Queue     device_queue;
static StepState device_state;
static Arena     device_workspace;

/* false: there is no GPU. */
static bool device_open(void)
{
    if (queue_open(&device_queue, "cuda", 1, &device_state) != OK) return false;
    assert_int_equal(arena_open_on(&device_workspace, "workspace", DEVICE_WORKSPACE, device_queue.memory, NULL), OK);
    device_queue.workspace = &device_workspace;
    return true;
}

static void device_close(void)
{
    arena_close(&device_workspace);
    queue_close(&device_queue);
}

static void device_perform(int op, const Arguments *a)
{
    Queue *q = &device_queue;
    switch (op) {
#define KERNEL(name, Struct) case OP_##name: name(q, a->name); break;
#include "tensor/cuda/kernels.def"
    default: fail_msg("%s has no kernel", op_name(op));
    }
}

/* The op on copies of the buffers in device memory, which are then copied back. */
static void device_run(Trial *t, const Arguments *a, int op, const Dtype *type, unsigned order)
{
    void  *memory[BUFFERS];
    size_t bytes[BUFFERS];
    trial_copy(t, a, op, type);
    Arguments on_device = t->a;
    Tensor   *x = (Tensor *)&on_device;
    for (int b = 0; b < buffers; b++) {
        bytes[b]  = (size_t)buffer[b].count * dtype_width(t->type[b]);
        memory[b] = gpu_alloc(bytes[b]);
        queue_write(&device_queue, memory[b], t->copy[b], bytes[b]);
        for (int i = 0; i < tensors_of(op); i++) {
            char *data = ((Tensor *)&t->a)[i].data;
            if (tensor_present(x[i]) && data >= t->copy[b] && data < t->copy[b] + bytes[b])
                x[i].data = (char *)memory[b] + (data - t->copy[b]);
        }
    }
    device_state = t->step_state;
    queue_state_write(&device_queue);
    gpu_cpu_order(order);
    device_perform(op, &on_device);
    queue_state_read(&device_queue);
    t->step_state = device_state;
    for (int b = 0; b < buffers; b++) {
        queue_read(&device_queue, t->copy[b], memory[b], bytes[b]);
        gpu_free(memory[b]);
    }
}

/* Types that the kernels take */
static bool device_takes(int op, const Signature *s)
{
    const Dtype all[] = { s->a, s->w, s->o, s->x, s->y };
    if (!op_on_cuda(op) || s->o != F32) return false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != F32 && all[i] != BF16 && all[i] != F16) return false;
    return true;
}

/* Against ref, and once more: in another order of threads by the shim, and again on a GPU. Kernels that
 * multiply by tensor cores round probabilities to the 16-bit type. */
static void one_device(int op, int variant, const Arguments *a, const Dtype *type, const Trial *ref, double tolerance)
{
    Trial one, more;
    device_run(&one, a, op, type, orders[0]);
    const Tensor *x = (const Tensor *)&ref->a, *y = (const Tensor *)&one.a;
    for (int i = 0; i < tensors_of(op); i++)
        if (tensor_present(x[i])) compare(op, variant, i, &ref->a, y[i], tolerance * loosen);
    compare_gaps(op, variant, &one);
    assert_memory_equal(&ref->step_state, &one.step_state, sizeof one.step_state);
    for (size_t k = 1; k < sizeof orders / sizeof *orders; k++) {
        device_run(&more, a, op, type, orders[k]);
        same_bits(op, variant, &one, &more, (int)orders[k]);
        trial_free(&more);
    }
    trial_free(&one);
}
#endif
