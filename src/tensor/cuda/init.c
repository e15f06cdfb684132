/* Initial values of parameters. They are computed on the host by the cpu back end, so that weights begin with
 * the same bits on every device, and copied; that is once in a run. */
#include <stdlib.h>
#include "tensor/cpu/cpu.h"
#include "tensor/cuda/kernels.h"

enum { AT_ONCE = 4 << 20 };                        /* elements */

static void *host_new(Tensor like)
{
    void *host = malloc(AT_ONCE * dtype_width(like.dtype));
    CHECK(host, "no memory for initial values");
    return host;
}

/* Elements first .. first + n - 1 of y, in host memory. */
static Tensor part_of(Tensor y_N, void *host, int64_t first, int64_t *n)
{
    *n = y_N.dim[0] - first < AT_ONCE ? y_N.dim[0] - first : AT_ONCE;
    return tensor_at(host, y_N.dtype, n, 1);
}

static void part_write(Queue *q, Tensor y_N, int64_t first, const void *host, int64_t n)
{
    size_t width = dtype_width(y_N.dtype);
    queue_write(q, (char *)y_N.data + (size_t)first * width, host, (size_t)n * width);
}

void cuda_init_random(Queue *q, const InitRandom *a)
{
    void *host = host_new(a->y_N);
    for (int64_t first = 0, n; first < a->y_N.dim[0]; first += n) {
        InitRandom part = *a;
        part.y_N = part_of(a->y_N, host, first, &n);
        part.first += first;
        cpu_init_random(q, &part);
        part_write(q, a->y_N, first, host, n);
    }
    free(host);
}

void cuda_init_value(Queue *q, const InitValue *a)
{
    void *host = host_new(a->y_N);
    for (int64_t first = 0, n; first < a->y_N.dim[0]; first += n) {
        InitValue part = *a;
        part.y_N = part_of(a->y_N, host, first, &n);
        cpu_init_value(q, &part);
        part_write(q, a->y_N, first, host, n);
    }
    free(host);
}
