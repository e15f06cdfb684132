#include "corpus/clean/eta.h"

#include <inttypes.h>
#include "base/log.h"
#include "base/seam.h"

Eta eta_begin(const char *what, int64_t from, int64_t total)
{
    int64_t now = seam.clock();
    return (Eta){ .what = what, .begun = now, .told = now, .from = from, .total = total };
}

double eta_seconds(const Eta *p) { return (double)(seam.clock() - p->begun) * 1e-9 + 1e-9; }

static int due(Eta *p)
{
    int64_t now = seam.clock();
    if ((double)(now - p->told) * 1e-9 < (log_terminal() ? 0.2 : 10)) return 0;
    p->told = now;
    return 1;
}

static const char *left_text(char out[24], const Eta *p, int64_t done)
{
    double rate = (double)(done - p->from) / eta_seconds(p);
    return log_time(out, rate > 0 ? (double)(p->total - done) / rate : 0);
}

void eta_bytes(Eta *p, int64_t done)
{
    char behind[24], all[24], left[24];
    if (!due(p)) return;
    double rate = (double)(done - p->from) / eta_seconds(p) * 1e-6;
    log_bytes(behind, (double)done);
    if (p->total < 0) log_progress("%s: %s, %.1f MB/s", p->what, behind, rate);
    else log_progress("%s: %s of %s, %.1f MB/s, %s left", p->what, behind, log_bytes(all, (double)p->total), rate,
                      left_text(left, p, done));
}

void eta_count(Eta *p, int64_t done, const char *things)
{
    char left[24];
    if (due(p)) log_progress("%s: %" PRId64 " of %" PRId64 " %s, %s left", p->what, done, p->total, things, left_text(left, p, done));
}
