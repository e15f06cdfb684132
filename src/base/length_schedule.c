/* Lengths that rise with the steps. Sums go over the lengths, which are few, and never over steps. */
#include "base/length_schedule.h"
#include <math.h>
#include "base/integer.h"

int64_t length_at(const LengthSchedule *s, int64_t step)
{
    if (!s->steps) return s->most;
    double part = (double)step / (double)s->steps;
    double risen = floor(part * (double)(s->most - s->least) + (double)s->least);
    if (risen >= (double)s->most + (double)s->multiple) return s->most;
    int64_t length = (int64_t)risen;
    return least(length - length % s->multiple, s->most);
}

/* The last of the steps up to `end` that has the length of step `first`; lengths never fall. */
static int64_t last_of_length(const LengthSchedule *s, int64_t first, int64_t end)
{
    int64_t length = length_at(s, first), low = first, high = end;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (length_at(s, middle) == length) low = middle;
        else                                high = middle - 1;
    }
    return low;
}

int64_t length_sum(const LengthSchedule *s, int64_t steps)
{
    int64_t sum = 0, more;
    for (int64_t done = 0, last; done < steps; done = last) {
        last = last_of_length(s, done + 1, steps);
        if (__builtin_mul_overflow(last - done, length_at(s, last), &more) ||
            __builtin_add_overflow(sum, more, &sum))
            return INT64_MAX;
    }
    return sum;
}

int64_t length_tokens(const LengthSchedule *s, int64_t samples, int64_t batch)
{
    int64_t steps = samples / batch, rest = samples % batch, sum, last;
    if (__builtin_mul_overflow(length_sum(s, steps), batch, &sum) ||
        __builtin_mul_overflow(rest, length_at(s, steps + 1), &last) ||
        __builtin_add_overflow(sum, last, &sum))
        return INT64_MAX;
    return sum;
}

int64_t length_steps(const LengthSchedule *s, int64_t tokens)
{
    int64_t low = 0, high = tokens / length_at(s, 1);
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (length_sum(s, middle) <= tokens) low = middle;
        else                                 high = middle - 1;
    }
    return low;
}
