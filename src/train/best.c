/* Which checkpoint has the lowest validation loss. */
#include "train/best.h"
#include <math.h>
#include <stdio.h>
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint_dir.h"

/* The checkpoint that the run resumes from may be the best one, saved just before a kill left the link
 * undone. */
static void relink(Best *best, const Trainer *t)
{
    char path[1024];
    CheckpointState state;
    CheckpointFolder folder = { t->run.step, FOLDER_WHOLE };
    if (checkpoint_dir_path(path, t->config->save, folder) != OK || !file_exists(path)) return;
    if (checkpoint_state(path, &state) != OK) return;
    if (state.valid_loss <= 0 || state.valid_loss >= best->loss) return;
    if (checkpoint_dir_link(t->config->save, "best", t->run.step) == OK) best->loss = state.valid_loss;
}

Best best_open(const Trainer *t)
{
    const TrainConfig *config = t->config;
    Best best = { .keeps = config->keep_best && t->mesh.rank == 0, .loss = INFINITY };
    char path[1024];
    CheckpointState state;
    if (!best.keeps || path_join(path, config->save, "best") != OK) return best;
    /* A damaged one is as good as none. */
    bool known = checkpoint_dir_is_step(path) && checkpoint_state(path, &state) == OK;
    if (known && state.step <= t->run.step && state.valid_loss > 0) best.loss = state.valid_loss;
    relink(&best, t);
    return best;
}

bool best_beaten(const Best *best, double loss) { return best->keeps && loss < best->loss; }

Status best_publish(Best *best, const Trainer *t)
{
    bool due = best->due;
    best->due = false;
    if (!due || !best->keeps) return OK;
    TRY(checkpoint_dir_link(t->config->save, "best", t->run.step));
    best->loss = t->run.valid_loss;
    /* the one that was the best before is kept for its age alone from here on */
    if (t->config->keep_last > 0) checkpoint_dir_prune(t->config->save, t->run.step,
                                                       (int)t->config->keep_last);
    log_line("step %lld has the lowest validation loss, %.4f: %s/best is its checkpoint",
             (long long)t->run.step,
             best->loss, t->config->save);
    return OK;
}
