/* Our own checkpoints as one more format: read as tensors in mapped files, written as weights alone. */
#include "convert/jotun_checkpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/checkpoint.h"
#include "store/checkpoint_writer.h"
#include "store/safetensors.h"

/* ---- reading ---- */

static Status file_add(ForeignFile *file, const char *folder, const ManifestFile *listed)
{
    SafeFile safe;
    char     path[1024];
    int      map, tensor;
    TRY(path_join(path, folder, listed->contents.name));
    TRY(safetensors_open(&safe, path));
    Status status = OK;
    if ((int64_t)safe.map.size != listed->bytes || safe.tensors != listed->contents.tensors)
        status = fail(BAD_FILE, "%s: is not the file that its manifest describes", path);
    if (status == OK) status = foreign_adopt(file, &map, &safe.map);
    for (int i = 0; i < safe.tensors && status == OK; i++) {
        const SafeTensor *t = &safe.tensor[i];
        status = foreign_tensor(file, &tensor, t->name, t->dtype, t->dims, t->dim);
        if (status == OK) status = foreign_whole(file, tensor, (const char *)file->map[map].data + t->at);
    }
    safetensors_close(&safe);
    return status;
}

static char *copy_of(const char *text) { return text ? strdup(text) : NULL; }

static Status model_fill(ForeignModel *model, const char *folder, const CheckpointFacts *facts)
{
    const Manifest *m = &facts->manifest;
    model->options = copy_of(facts->state.options);
    model->data    = copy_of(facts->state.data_fingerprint);
    model->step = facts->state.step, model->samples = facts->state.samples;
    if (!model->options) return fail(NO_MEMORY, "%s: no memory for its options", folder);
    if (facts->state.tokenizer.name)
        snprintf(model->tokenizer, sizeof model->tokenizer, "%s", facts->state.tokenizer.name);
    for (int f = 0; f < m->files; f++) TRY(file_add(&model->file, folder, &m->file[f]));
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

typedef struct { CheckpointFile *file; int *first, files; } Files;

static void files_free(Files *files)
{
    for (int f = 0; f < files->files; f++) free(files->file[f].tensor);
    free(files->file);
    free(files->first);
}

/* The tensors of the plan are in the order of parameter blocks, of which each is a file. */
static Status files_make(Files *files, const ConvertRun *c, const ModelConfig *config)
{
    int64_t blocks = params_blocks(config);
    int     at = 0;
    *files =
        (Files){calloc((size_t)blocks, sizeof *files->file), calloc((size_t)blocks, sizeof *files->first), 0};
    if (!files->file || !files->first) return fail(NO_MEMORY, "no memory for %lld files", (long long)blocks);
    for (int64_t b = 0; b < blocks; b++) {
        ParamBlock block;
        int        count = 0;
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
            params_block(&block, config, f, b, NULL);
            count += block.params;
        }
        count += config->moe.bias && model_layer_is_moe(config, b - 2);
        if (count == 0) continue;
        CheckpointFile *file = &files->file[files->files];
        files->first[files->files++] = at;
        checkpoint_file_name(file->name, b);
        if (!(file->tensor = calloc((size_t)count, sizeof *file->tensor)))
            return fail(NO_MEMORY, "no memory for the tensors of %s", file->name);
        for (; file->tensors < count; file->tensors++, at++) {
            const PlanTensor *t = &c->plan->tensor[at];
            LogicalTensor    *tensor = &file->tensor[file->tensors];
            *tensor = (LogicalTensor){ .dims = t->as.dims, .dtype = convert_run_dtype(c, t) };
            memcpy(tensor->name, t->as.name, sizeof tensor->name);
            memcpy(tensor->dim, t->as.shape, sizeof tensor->dim);
        }
    }
    CHECK(at == c->plan->tensors, "%d of %d tensors are in files", at, c->plan->tensors);
    return OK;
}

static Status files_write(ConvertRun *c, const Files *files, const CheckpointState *state)
{
    Manifest manifest;
    char     folder[1024];
    snprintf(folder, sizeof folder, "%s", c->part);
    TRY(manifest_plan(&manifest, state, files->file, files->files));
    Status status = OK;
    for (int f = 0; f < files->files && status == OK; f++)
        status = convert_run_weights(c, files->file[f].name, files->first[f], files->file[f].tensors,
                                    &manifest.file[f].bytes, manifest.file[f].checksum);
    if (status == OK) status = manifest_write(&manifest, folder);
    manifest_free(&manifest);
    return status;
}

Status jotun_write(ConvertRun *c, const ModelConfig *config, const CheckpointState *state)
{
    Files  files;
    Status status = files_make(&files, c, config);
    if (status == OK) status = convert_run_begin(c);
    if (status == OK) status = convert_run_finish(c, files_write(c, &files, state));
    files_free(&files);
    return status;
}
