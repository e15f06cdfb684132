/* Batch sizes that change with the consumed samples. Every function goes over entries, never over steps. */
#include "base/batch_schedule.h"

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

/* Steps of entry i from `consumed` on: those that begin before the next entry does. */
static int64_t steps_within(BatchSchedule batch, int i, int64_t consumed)
{
    int64_t size = batch.step[i].size;
    return i + 1 < batch.steps ? (batch.step[i + 1].from - consumed + size - 1) / size : INT64_MAX;
}

int64_t batch_schedule_after(BatchSchedule batch, int64_t consumed, int64_t steps)
{
    while (steps > 0) {
        int i = entry_at(batch, consumed);
        int64_t size = batch.step[i].size, n = steps_within(batch, i, consumed);
        if (n > steps) n = steps;
        if (n > (INT64_MAX - consumed) / size) return INT64_MAX;
        consumed += n * size;
        steps    -= n;
    }
    return consumed;
}

int64_t batch_schedule_steps(BatchSchedule batch, int64_t consumed, int64_t end)
{
    int64_t steps = 0;
    while (consumed < end) {
        int i = entry_at(batch, consumed);
        int64_t size = batch.step[i].size, n = steps_within(batch, i, consumed);
        int64_t fit = (end - consumed) / size;
        if (n > fit) n = fit;
        if (n == 0) break;
        consumed += n * size;
        steps    += n;
    }
    return steps;
}
