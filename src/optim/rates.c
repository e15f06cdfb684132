/* Two schedules, compared by the rates that they give. */
#include "optim/rates.h"
#include <math.h>
#include "base/array.h"

const char *const rate_names[RATES] = {
    "the learning rate", "the learning rate of embedding and output layer", "the weight decay"};

/* x units after the checkpoint */
static double rate_at(const Rates *r, RateKind kind, int64_t x)
{
    int64_t done = r->at + x * r->unit;
    switch (kind) {
    case RATE_ALL:          return lr_at(&r->lr, done);
    case RATE_DECOUPLED:    return lr_decoupled_at(&r->lr, done);
    case RATE_WEIGHT_DECAY: return weight_decay_at(&r->decay, done);
    case RATES: break;
    }
    return 0;
}

static void compare_at(RateDifference *d, const Rates *now, const Rates *was, int64_t x)
{
    const double rounding = 1e-9; /* a share of samples is rounded */
    for (RateKind kind = 0; kind < RATES; kind++) {
        double a = rate_at(now, kind, x), b = rate_at(was, kind, x);
        if (fabs(a - b) <= rounding * fmax(fabs(a), fabs(b)) || (d->x >= 0 && d->x <= x)) continue;
        *d = (RateDifference){x, kind, a, b};
    }
}

RateDifference rates_compare(const Rates *now, const Rates *was)
{
    enum { POINTS = 64 };
    const Rates   *both[] = {now, was};
    RateDifference d      = {.x = -1};
    int64_t        last   = 1;
    compare_at(&d, now, was, 0);
    for (int i = 0; i < 2; i++) {
        const LrSchedule *lr = &both[i]->lr;
        int64_t end[] = {(int64_t)lr->warmup, lr->decay - lr->wsd_decay, lr->decay, both[i]->decay.samples};
        for (size_t k = 0; k < COUNT(end); k++) {
            int64_t x = (end[k] - both[i]->at) / both[i]->unit;
            for (int64_t beside = x - 1; beside <= x + 1; beside++)
                if (beside > 0) compare_at(&d, now, was, beside);
            if (x > last) last = x;
        }
    }
    for (int i = 1; i < POINTS; i++) compare_at(&d, now, was, (int64_t)((double)last * i / POINTS));
    return d;
}
