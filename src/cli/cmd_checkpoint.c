/* The commands that inspect checkpoints. `jotun checkpoint info DIR` prints the step, options and tensors of
 * the newest complete checkpoint; `jotun checkpoint verify DIR` reads every checkpoint and checks every
 * checksum. DIR is the folder that --save named, or the folder of one step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "conf/conf.h"
#include "store/checkpoint.h"
#include "store/tensor_entry.h"
#include "store/manifest.h"
#include "store/checkpoint_dir.h"

static void options_list(const char *text)
{
    const char *name;
    json_t     *value, *options = json_loads(text, 0, NULL);
    json_object_foreach(options, name, value) {
        char *said = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        printf("           %s = %s\n", name, said ? said : "");
        free(said);
    }
    json_decref(options);
}

static void tensors_list(const Manifest *m)
{
    char text[128];
    for (int f = 0; f < m->files; f++)
        for (int t = 0; t < m->file[f].contents.tensors; t++) {
            const LogicalTensor *tensor = &m->file[f].contents.tensor[t];
            printf("%-24s %-24s %s\n", m->file[f].contents.name, tensor_entry_text(text, tensor),
                   tensor->name);
        }
}

static Status none_fail(const char *dir)
{
    return fail(BAD_FILE, "%s: holds no checkpoint; give the directory that --save named, or a step's own",
                dir);
}

static Status info(const char *dir)
{
    Manifest m;
    char     bytes[24], folder[1024];
    double   sum = 0;
    bool     found;
    TRY(checkpoint_find(dir, folder, &found));
    if (!found) return none_fail(dir);
    TRY(manifest_read(&m, folder));
    for (int f = 0; f < m.files; f++) sum += (double)m.file[f].bytes;
    printf("directory  %s\n", folder);
    printf("step       %" PRId64 "\nsamples    %" PRId64 "\nupdates    %" PRId64 "\nseed       %" PRIu64 "\n",
           m.state.step, m.state.samples, m.state.updates, m.state.seed);
    if (m.state.lacks)
        printf("lacks      %s%s%s\n", m.state.lacks & CHECKPOINT_STATES ? "optimizer states" : "",
               m.state.lacks == (CHECKPOINT_STATES | CHECKPOINT_POSITION) ? ", " : "",
               m.state.lacks & CHECKPOINT_POSITION ? "position of a run" : "");
    for (int bit = 0; bit < DUE_BITS; bit++)
        if (m.state.due >> bit & 1)
            printf("due        %s\n", bit == DUE_SAMPLES ? "samples of text" : "an evaluation");
    if (m.kernels) printf("kernels    %s\n", m.kernels);
    if (m.state.loss_scale.scale > 0) printf("loss scale %g\n", m.state.loss_scale.scale);
    if (m.tokenizer)
        printf("tokenizer  %s (%s)%s\n", m.tokenizer, m.fingerprint, m.state.tokenizer.copies ?
               ", carried in tokenizer/" : strcmp(m.tokenizer, "bytes") ? ", not carried" : "");
    printf("tensors    %d in %d files, %s\noptions    as the run was given them\n", m.tensors, m.files,
           log_bytes(bytes, sum));
    options_list(m.options);
    printf("\n");
    tensors_list(&m);
    manifest_free(&m);
    return OK;
}

/* ---- verify: unlike a resuming run, it never substitutes an older checkpoint for a damaged one ---- */

/* How many checkpoints were read and how many are damaged; the first defect. */
typedef struct { int looked, bad; Failure first; } Findings;

static void findings_add(Findings *all, Status status, const char *path)
{
    all->looked++;
    if (status == OK) {
        printf("%s: every checksum is right\n", path);
        return;
    }
    printf("%s: DAMAGED: %s\n", path, fail_text());
    all->bad++;
    failure_keep(&all->first, status);
}

/* A folder that was renamed aside counts only where no new checkpoint of its step has taken its name;
 * otherwise a run is about to remove it. A folder that a run is still writing is no checkpoint yet. */
static Status step_verify(const char *dir, const CheckpointFolder *list, int i, Findings *all)
{
    char path[1024];
    bool replaced = list[i].kind == FOLDER_OLD && i > 0 && list[i - 1].step == list[i].step;
    if (list[i].kind == FOLDER_PART || replaced) return OK;
    TRY(checkpoint_dir_path(path, dir, list[i]));
    Status status = checkpoint_verify(path, true);
    /* A run with --keep-last may remove a checkpoint while it is read, which is no damage. */
    if (status != OK && !file_exists(path)) printf("%s: removed meanwhile\n", path);
    else findings_add(all, status, path);
    return OK;
}

/* The file "latest" must name a step that has a complete folder. */
static Status latest_verify(const char *dir, const CheckpointFolder *list, int count, Findings *all)
{
    CheckpointFolder latest;
    bool             named, there = false;
    TRY(checkpoint_dir_latest(dir, &latest, &named));
    for (int i = 0; i < count; i++) there |= list[i].step == latest.step && list[i].kind != FOLDER_PART;
    if (!named || there) return OK;
    Status status = fail(BAD_FILE, "%s/latest names step %lld, which is not there", dir,
                         (long long)latest.step);
    printf("%s\n", fail_text());
    failure_keep(&all->first, status);
    return OK;
}

static Status steps_verify(const char *dir, Findings *all)
{
    CheckpointFolder *list;
    int               count;
    TRY(checkpoint_dir_list(dir, &list, &count));
    Status status = OK;
    for (int i = 0; status == OK && i < count; i++) status = step_verify(dir, list, i, all);
    if (status == OK) status = latest_verify(dir, list, count, all);
    free(list);
    return status;
}

static Status verify(const char *dir)
{
    Findings all = { 0 };
    char inner[1024];
    TRY(checkpoint_dir_inner(inner, dir));
    dir = inner;
    if (checkpoint_dir_is_step(dir)) findings_add(&all, checkpoint_verify(dir, true), dir);
    else TRY(steps_verify(dir, &all));
    if (all.looked == 0 && all.first.status == OK) return none_fail(dir);
    Status status = failure_report(&all.first);
    if (all.bad == 0) return status;
    return fail_prefix(status, "%s: %d of %d checkpoints are damaged; the first: ", dir, all.bad, all.looked);
}

static Status look(const Options *o, Status (*at)(const char *))
{
    TRY(options_expect(o, 1, "DIR"));
    TRY(checkpoint_directory(o->words.text[0], o->words.text[0]));
    return at(o->words.text[0]);
}

Status cmd_checkpoint_info  (Options *o) { return look(o, info); }
Status cmd_checkpoint_verify(Options *o) { return look(o, verify); }
