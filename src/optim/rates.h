#ifndef OPTIM_RATES_H
#define OPTIM_RATES_H
/* The rates of a run beside those of the run that it continues. */
#include "optim/lr.h"

/* The schedules of one run, from the position of the checkpoint on. */
typedef struct {
    LrSchedule          lr;
    WeightDecaySchedule decay;
    int64_t             at;   /* as the schedules count samples */
    int64_t             unit; /* of x below: samples of a step where they count steps, or 1 */
} Rates;

typedef enum { RATE_ALL, RATE_DECOUPLED, RATE_WEIGHT_DECAY, RATES } RateKind;
extern const char *const rate_names[RATES];               /* "the learning rate" */

/* The first x at which the two differ in some kind of rate; -1: they do not. */
typedef struct {
    int64_t  x;
    RateKind kind;
    double   now, was;
} RateDifference;
/* Looks at the next step, at the ends of all phases and the samples beside them, and at points between. */
RateDifference rates_compare(const Rates *now, const Rates *was);
#endif
