#include "optim/lr.h"
#include <math.h>

/* warm-up: peak n / W;   then r = (n - W) / (D - W): linear 1 - r, cosine (cos pi r + 1) / 2 between low and peak */
double lr_at(const LrSchedule *s, int64_t done)
{
    if (s->warmup > 0 && done <= s->warmup) return s->peak * (double)done / (double)s->warmup;
    if (s->style == LR_CONSTANT) return s->peak;
    if (done > s->decay) return s->low;
    double part = (double)(done - s->warmup) / (double)(s->decay - s->warmup);
    double left = s->style == LR_LINEAR ? 1 - part : 0.5 * (cos(acos(-1.0) * part) + 1);
    return s->low + (s->peak - s->low) * left;
}
