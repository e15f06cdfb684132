#ifndef LOGS_EPOCH_LINE_H
#define LOGS_EPOCH_LINE_H
/* The lines that fairseq prints, for scripts that read its logs (--log-format epochs, epochs-json): fields,
 * their order and their formats are those of its simple and json progress bars. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "compat/log_names.h"

/* Of the steps since the line before, or of an epoch; those that were skipped have seconds alone. tokens:
 * with a loss, so that padding does not count. loss: the mean over them in nats, NAN where no step
 * counted; norm: the mean over steps. seconds: of all of them; wall: since the start of the run. lr,
 * loss_scale: of the next update. clip: the share of steps that were clipped in percent, below 0: the
 * field is left out; so is loss_scale where it is 0. at, size: steps of the epoch up to this one, and in
 * all. */
typedef struct {
    int64_t epoch, at, size, steps, tokens, samples, updates;
    double  loss, seconds, lr, norm, clip, loss_scale, wall;
    double  now;                      /* seconds since 1970 */
    bool    json;
} EpochLine;

/* All write a line without its end into `out` and return its bytes. */
int epoch_line           (char *out, size_t size, const EpochLine *line);      /* within an epoch */
int epoch_end_line       (char *out, size_t size, const EpochLine *line);      /* at its end */
/* set: the name of the data set; best: the lowest loss so far. Of `line` epoch, loss, updates, now and json
 * count. */
int epoch_evaluation_line(char *out, size_t size, const EpochLine *line, const char *set, double best);
int epoch_message        (char *out, size_t size, double now, LineSpeaker speaker, const char *text);
#endif
