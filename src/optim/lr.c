/* The learning rate schedules. */
#include "optim/lr.h"
#include <math.h>
#include "base/sine.h"

/* With n steps done, W warm-up steps and decay until step D: during warm-up peak n / W; then, with r = (n
 * - W) / (D - W), low + (peak - low) (1 - r) for linear and low + (peak - low) (cos(pi r) + 1) / 2 for
 * cosine. */
double lr_at(const LrSchedule *s, int64_t done)
{
    if (s->warmup > 0 && done <= s->warmup) return s->peak * (double)done / (double)s->warmup;
    if (s->style == LR_CONSTANT) return s->peak;
    if (done > s->decay) return s->low;
    double part = (double)(done - s->warmup) / (double)(s->decay - s->warmup);
    double left = s->style == LR_LINEAR ? 1 - part : 0.5 * (sine_cosine(M_PI * part).cosine + 1);
    return s->low + (s->peak - s->low) * left;
}
