/* Our own checkpoints as one more format: read as tensors in mapped files, written with the
 * states of Adam where the other program's have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"
#include "convert/convert_run.h"
#include "store/checkpoint.h"
#include "store/checkpoint_file.h"
#include "store/checkpoint_writer.h"

/* ---- reading ---- */

static char *copy_of(const char *text) { return text ? strdup(text) : NULL; }

static Status model_fill(ForeignModel *model, const char *folder, const CheckpointFacts *facts)
{
    const Manifest *m = &facts->manifest;
    model->options = copy_of(facts->state.options);
    model->given   = copy_of(facts->state.given);
    model->data    = copy_of(facts->state.data_fingerprint);
    model->step = facts->state.step, model->samples = facts->state.samples;
    if (!model->options) return fail(NO_MEMORY, "%s: no memory for its options", folder);
    if (facts->state.tokenizer.name)
        snprintf(model->tokenizer, sizeof model->tokenizer, "%s", facts->state.tokenizer.name);
    for (int f = 0; f < m->files; f++) {               /* tensors are in the order of the manifest */
        const ManifestFile *listed = &m->file[f];
        SafeFile            safe;
        TRY(checkpoint_file_map(&safe, folder, &listed->contents, listed->bytes));
        TRY(foreign_safetensors(&model->file, &safe, listed->checksum));
    }
    return foreign_finish(&model->file);
}

Status jotun_open(ForeignModel *model, const char *path)
{
    char            folder[1024];
    bool            found;
    CheckpointFacts facts;
    *model = (ForeignModel){ 0 };
    TRY(checkpoint_find(path, folder, &found));
    if (!found)
        return fail(BAD_FILE,
                    "%s: holds no checkpoint; give the directory that --save named, or a step's"
                    " own",
                    path);
    TRY(checkpoint_facts(&facts, folder));
    foreign_begin(&model->file, folder);
    Status status = model_fill(model, folder, &facts);
    checkpoint_facts_free(&facts);
    if (status != OK) foreign_model_close(model);
    return status;
}

/* ---- writing ---- */

/* Puts the moments of each weight behind it, as the plan has them. */
static void moments_add(CheckpointFile *file, const Plan *plan)
{
    LogicalTensor *all = calloc((size_t)file->tensors * 3 + 1, sizeof *all);
    CHECK(all, "no memory for a checkpoint file of %d tensors", file->tensors);
    int count = 0;
    for (int i = 0; i < file->tensors; i++) {
        const LogicalTensor *weight = &file->tensor[i];
        all[count++] = *weight;
        for (ForeignKind k = FOREIGN_MOMENT; k <= FOREIGN_SQUARE; k++) {
            LogicalTensor *moment = &all[count];
            *moment = *weight;
            message_add(moment->name, sizeof moment->name, ".%s", foreign_kind_name(k));
            count += plan_find(plan, moment->name) != NULL;
        }
    }
    free(file->tensor);
    file->tensor  = all;
    file->tensors = count;
}

/* The files of the model, whose tensors get the types of the plan's. */
static int files_make(CheckpointFile **files, const ConvertRun *c, const ModelConfig *config)
{
    int count = checkpoint_weight_files(files, config, F32, config->moe.bias), tensors = 0;
    for (int f = 0; f < count && c->plan->states; f++) moments_add(&(*files)[f], c->plan);
    for (int f = 0; f < count; f++)
        for (int t = 0; t < (*files)[f].tensors; t++, tensors++) {
            LogicalTensor    *tensor = &(*files)[f].tensor[t];
            const PlanTensor *planned = plan_find(c->plan, tensor->name);
            CHECK(planned, "the plan has no tensor '%s'", tensor->name);
            tensor->dtype = planned->dtype;
        }
    CHECK(tensors == c->plan->tensors, "%d of %d tensors are in files", tensors, c->plan->tensors);
    return count;
}

static Status window_put(void *writer, const ConvertWindow *w)
{
    return checkpoint_writer_put(writer, w->tensor->as.name, w->count, w->data);
}

/* The tensors of the plan are in the order of parameter blocks, of which each is a file. */
static Status checkpoint_write(ConvertRun *c, const CheckpointState *state, const CheckpointFile *files,
                               int count)
{
    CheckpointWriter *writer;
    Failure           failure = { 0 };                         /* removing may fail too */
    TRY(checkpoint_writer_open(&writer, "--output", c->output, state, files, count));
    Status status = convert_run_count(c, c->output);
    if (status == OK) status = convert_run_windows(c, 0, c->plan->tensors, window_put, writer);
    if (status == OK) status = convert_run_stopped(c);
    if (status == OK) status = checkpoint_writer_finish(writer);
    failure_keep(&failure, status);
    checkpoint_writer_close(writer);
    return failure_report(&failure);
}

Status jotun_write(ConvertRun *c, const ModelConfig *config, const CheckpointState *state)
{
    CheckpointFile *files;
    TRY(convert_run_place(c));
    int    count  = files_make(&files, c, config);
    Status status = checkpoint_write(c, state, files, count);
    checkpoint_files_free(files, count);
    return status;
}
