#include "train/history/rank_numbers.h"
#include <math.h>

/* The number of a rank, and the first of its four facts: mean, max, min, std. */
static const struct { size_t offset; LogFact first; } numbers[] = {
    { offsetof(RankNumbers, loss),         FACT_loss_mean },
    { offsetof(RankNumbers, seconds),      FACT_seconds_mean },
    { offsetof(RankNumbers, data_seconds), FACT_data_seconds_mean },
    { offsetof(RankNumbers, memory),       FACT_memory_mean },
};

/* Two passes over the ranks in their order, so that the standard deviation, of all ranks and not of a sample,
 * is exact where they are alike. */
static void put_number(LogRecord *record, const RankNumbers *all, int ranks, size_t offset, LogFact first)
{
    double sum = 0, squares = 0, high = -INFINITY, low = INFINITY;
    int    count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < ranks; r++) {
            double value = *(const double *)((const char *)&all[r] + offset);
            double off   = value - (count ? sum / count : 0);
            if (!isfinite(value)) continue;
            if (pass) squares += off * off;
            else sum += value, count++, high = fmax(high, value), low = fmin(low, value);
        }
    if (!count) return;
    log_put(record, first,     sum / count);
    log_put(record, first + 1, high);
    log_put(record, first + 2, low);
    log_put(record, first + 3, sqrt(squares / count));
}

void rank_numbers_put(LogRecord *record, Trainer *t, RankNumbers *all, RankNumbers mine)
{
    if (!t->config->logs.history) return;
    comm_gather(t->world, all, &mine, sizeof mine);                              /* <-> world */
    if (t->mesh.rank > 0) return;                                /* rank 0 has the logs */
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_number(record, all, t->mesh.world, numbers[i].offset, numbers[i].first);
}
