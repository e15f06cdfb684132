#include "train/trainer_comms.h"
#include "train/history/rank_numbers.h"
#include <math.h>
#include "base/array.h"

/* The number of a rank, and the first of its four facts: mean, max, min, std. */
static const struct { size_t offset; LogFact first; } numbers[] = {
    { offsetof(RankNumbers, loss),         FACT_loss_mean },
    { offsetof(RankNumbers, seconds),      FACT_seconds_mean },
    { offsetof(RankNumbers, data_seconds), FACT_data_seconds_mean },
    { offsetof(RankNumbers, memory),       FACT_memory_mean },
};
enum { NUMBERS = COUNT(numbers) };

/* Of each number what all ranks know of it after two messages, whose size does not depend on how many ranks
 * there are: the largest value and the least, negated; then the sums. These are of distances from the middle
 * between both, so that the standard deviation is 0 where all are alike, and accurate where they differ
 * little. */
typedef struct { double high, low; } Extremes;
typedef struct { double ranks, sum, squares; } Distances;

static double value_of(const RankNumbers *mine, int i)
{
    return *(const double *)((const char *)mine + numbers[i].offset);
}

static double middle(Extremes e) { return -e.low + (e.high + e.low) / 2; }

static Extremes extremes_of(double value)
{
    return isfinite(value) ? (Extremes){ value, -value } : (Extremes){ -INFINITY, -INFINITY };
}

static Distances distances_of(double value, Extremes e)
{
    double off = value - middle(e);
    return isfinite(value) ? (Distances){ 1, off, off * off } : (Distances){ 0 };
}

/* The standard deviation is that of all ranks, not of a sample. */
static void put_number(LogRecord *record, LogFact first, Extremes e, Distances d)
{
    double off = d.sum / d.ranks, variance = d.squares / d.ranks - off * off;
    if (d.ranks == 0) return;
    log_put(record, first,     middle(e) + off);
    log_put(record, first + 1, e.high);
    log_put(record, first + 2, -e.low);
    log_put(record, first + 3, sqrt(fmax(variance, 0)));
}

void rank_numbers_put(LogRecord *record, Trainer *t, RankNumbers mine)
{
    Extremes  extremes[NUMBERS];
    Distances distances[NUMBERS];
    if (!t->config->logs.history) return;
    for (int i = 0; i < NUMBERS; i++) extremes[i] = extremes_of(value_of(&mine, i));
    trainer_numbers_max(t, (double *)extremes, 2 * NUMBERS);                  /* <-> tp, dp+cp, pp */
    for (int i = 0; i < NUMBERS; i++) distances[i] = distances_of(value_of(&mine, i), extremes[i]);
    trainer_numbers_sum(t, (double *)distances, 3 * NUMBERS);                 /* <-> tp, dp+cp, pp */
    if (t->mesh.rank > 0) return;                                /* rank 0 has the logs */
    for (int i = 0; i < NUMBERS; i++) put_number(record, numbers[i].first, extremes[i], distances[i]);
}
