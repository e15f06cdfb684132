#ifndef BASE_LENGTH_SCHEDULE_H
#define BASE_LENGTH_SCHEDULE_H
/* How many tokens of each sample a training step counts, rising with the steps (--seq-length-warmup): a
 * curriculum of sequence lengths. What comes after them in a sample is computed and has no weight in the
 * loss; attention is causal, so the losses are those of shorter samples. */
#include <stdint.h>

/* In tokens, but `steps`, after which the length is `most`; steps 0: it always is. */
typedef struct { int64_t least, most, multiple, steps; } LengthSchedule;

/* The length in step k, counted from 1: DeepSpeed's fixed_linear,
 *     least + (most - least) k / steps, rounded down to a multiple of `multiple`, at most `most`. */
int64_t length_at(const LengthSchedule *lengths, int64_t step);
/* The sum of the lengths of the first steps; INT64_MAX where it is larger. */
int64_t length_sum(const LengthSchedule *lengths, int64_t steps);
/* The tokens that count of the first samples, `batch` of which are a step. */
int64_t length_tokens(const LengthSchedule *lengths, int64_t samples, int64_t batch);
/* The largest number of steps whose lengths sum to `tokens` or less. */
int64_t length_steps(const LengthSchedule *lengths, int64_t tokens);
#endif
