/* Counts weights that are NaN or infinite, for the message about a loss that is. */
#include "train/step.h"
#include "train/trainer.h"
#include "train/trainer_comms.h"

double trainer_broken_weights(Trainer *t)
{
    enum { CHUNK = 1 << 16 };
    unsigned char bytes[CHUNK];
    double broken = 0;
    for (int i = 0; i < t->buckets.count; i++) {
        Tensor x = t->buckets.bucket[i].weights;
        int64_t width = (int64_t)dtype_width(x.dtype), step = CHUNK / width;
        for (int64_t at = 0, n = tensor_count(x); tensor_present(x) && at < n; at += step) {
            int64_t count = n - at < step ? n - at : step;
            queue_read(&t->queue, bytes, (char *)x.data + at * width, (size_t)(count * width));
            broken += (double)dtype_not_finite(bytes, x.dtype, count);
        }
    }
    trainer_numbers_max(t, &broken, 1);                                       /* <-> tp, dp+cp, pp */
    return broken;
}
