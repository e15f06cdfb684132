/* The replay of a step that was not finite. */
#include "train/step.h"
#include "train/replay.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"

/* By place in the step: forward through the units, then backward through them, then what has no unit. So the
 * least number of all ranks is nearest to the cause. */
static double place_of(const Trainer *t, const OpFinding *f)
{
    double units = (double)model_units(&t->config->model);
    if (!f->found) return INFINITY;
    if (f->unit < 0) return 2 * units;
    return strstr(f->op, "backward") || strstr(f->op, "xent") ? 2 * units - 1 - f->unit : f->unit;
}

static void unit_text(char out[48], const Trainer *t, int64_t unit)
{
    const ModelConfig *model = &t->config->model;
    UnitKind kind = unit < 0 ? UNIT_EMBED : model_unit(model, unit);
    if (unit < 0)                snprintf(out, 48, "outside of the layers");
    else if (kind == UNIT_EMBED) snprintf(out, 48, "in the embedding");
    else if (kind == UNIT_HEAD)  snprintf(out, 48, "in the head");
    else if (kind == UNIT_MTP)
        snprintf(out, 48, "in multi-token prediction %lld", (long long)(unit - model_head(model)));
    else                         snprintf(out, 48, "in layer %lld of %lld", (long long)unit,
                                          (long long)model->layers);
}

bool replay_step(Trainer *t)
{
    OpFinding f = { .unit = -1 };
    char where[48], found[300];
    trainer_again(t, &f);                                                        /* <-> all axes */
    int least = trainer_least(t, place_of(t, &f));                               /* <-> all axes */
    unit_text(where, t, f.unit);
    snprintf(found, sizeof found, "%s, %s: %s", where, f.op ? f.op : "", f.text);
    Status mine = least == t->mesh.rank ? fail(BAD_FILE, "%s", found) : OK;
    Status named = agree(t->comms.world, mine);                                        /* <-> world */
    if (t->mesh.rank != 0) return named != OK;
    log_progress_end();
    if (named != OK)
        log_line("step %lld, again: the first result that is not finite: %s", (long long)t->run.step,
                 fail_text());
    else
        log_line("step %lld, again: the result of every operation is finite; a fault of memory or of a "
                 "processor may have been the cause", (long long)t->run.step);
    return named != OK;
}
