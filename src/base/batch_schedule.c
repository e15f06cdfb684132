/* Batch sizes that change with the consumed samples. Every function goes over entries, never over steps. */
#include "base/batch_schedule.h"
#include "base/integer.h"

/* The entry that applies after `consumed` samples. */
static int entry_at(BatchSchedule batch, int64_t consumed)
{
    int i = 0;
    while (i + 1 < batch.steps && batch.step[i + 1].from <= consumed) i++;
    return i;
}

int64_t batch_schedule_at(BatchSchedule batch, int64_t consumed)
{
    return batch.step[entry_at(batch, consumed)].size;
}

int64_t batch_schedule_largest(BatchSchedule batch)
{
    int64_t most = 0;
    for (int i = 0; i < batch.steps; i++) most = batch.step[i].size > most ? batch.step[i].size : most;
    return most;
}

/* Consumes the samples of up to `most` steps which end by `end`; returns how many steps. */
static int64_t advance(BatchSchedule batch, int64_t *consumed, int64_t most, int64_t end)
{
    int64_t steps = 0;
    while (steps < most) {
        int     i    = entry_at(batch, *consumed);
        int64_t size = batch.step[i].size, n = (end - *consumed) / size;
        if (i + 1 < batch.steps) n = least(n, divide_up(batch.step[i + 1].from - *consumed, size));
        n = least(n, most - steps);
        if (n <= 0) break;
        *consumed += n * size;
        steps     += n;
    }
    return steps;
}

int64_t batch_schedule_after(BatchSchedule batch, int64_t consumed, int64_t steps)
{
    return advance(batch, &consumed, steps, INT64_MAX) < steps ? INT64_MAX : consumed;
}

int64_t batch_schedule_steps(BatchSchedule batch, int64_t consumed, int64_t end)
{
    return advance(batch, &consumed, INT64_MAX, end);
}
