/* Progress lines. The estimate of the time left is that of a constant rate since the start. */
#include "corpus/clean/eta.h"

#include <inttypes.h>
#include "base/log.h"
#include "base/seam.h"

Eta eta_begin(const char *what, int64_t from, int64_t total)
{
    int64_t now = seam.clock();
    return (Eta){ .what = what, .begun = now, .reported = now, .from = from, .total = total };
}

/* The nanosecond keeps rates finite. */
double eta_seconds(const Eta *eta) { return seam_seconds_since(eta->begun) + 1e-9; }

/* Whether a line is due. A line on a terminal overwrites the previous one; elsewhere, in a log file, every
 * line stays. */
static int due(Eta *eta)
{
    int64_t now = seam.clock();
    if ((double)(now - eta->reported) * 1e-9 < (log_terminal() ? 0.2 : 10)) return 0;
    eta->reported = now;
    return 1;
}

static const char *left_text(char out[24], const Eta *eta, int64_t done)
{
    double rate = (double)(done - eta->from) / eta_seconds(eta);
    return log_time(out, rate > 0 ? (double)(eta->total - done) / rate : 0);
}

void eta_bytes(Eta *eta, int64_t done)
{
    char done_text[24], total_text[24], left_time[24];
    if (!due(eta)) return;
    double rate = (double)(done - eta->from) / eta_seconds(eta) * 1e-6;
    log_bytes(done_text, (double)done);
    if (eta->total < 0) log_progress("%s: %s, %.1f MB/s", eta->what, done_text, rate);
    else
        log_progress("%s: %s of %s, %.1f MB/s, %s left", eta->what, done_text,
                     log_bytes(total_text, (double)eta->total), rate, left_text(left_time, eta, done));
}

void eta_count(Eta *eta, int64_t done, const char *things)
{
    char left_time[24];
    if (due(eta))
        log_progress("%s: %" PRId64 " of %" PRId64 " %s, %s left", eta->what, done, eta->total, things,
                     left_text(left_time, eta, done));
}
