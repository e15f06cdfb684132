/* Shards of a rank out of a checkpoint of another program. */
#include "convert/weights/foreign_weights.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "convert/formats.h"
#include "convert/plan.h"
#include "convert/weights/foreign_table.h"
#include "text/tokenizer.h"

enum { BUFFER_BYTES = 1 << 20, RELEASE_BYTES = 64 << 20 };

const char *foreign_weights_folder(const char *load)
{
    ForeignFormat format;
    const char   *path = NULL;
    if (!foreign_format_of(&format, &path, load)) return NULL;
    return format == FORMAT_HF ? path : load;
}

/* What foreign_weights_folder returned. */
static Status source_open(ForeignModel *model, const char *load)
{
    ForeignFormat format;
    const char   *path = load;
    if (!foreign_format_of(&format, &path, load)) format = FORMAT_HF;
    return foreign_model_open(model, format, path);
}

CheckpointState foreign_weights_state(const ForeignFile *file)
{
    ForeignPosition at    = file->position;
    CheckpointState state = { .lacks = file->states ? 0 : CHECKPOINT_STATES };
    if (at.step < 0) state.lacks |= CHECKPOINT_POSITION;
    else state.step = at.step;
    if (at.step >= 0 && at.samples > 0) state.samples = state.updated_samples = at.samples;
    if (file->states) state.updates = at.updates;
    return state;
}

Status foreign_weights_facts(char **packed, size_t *bytes, const char *folder)
{
    ForeignModel model;
    *packed = NULL;
    TRY(source_open(&model, folder));
    ForeignFacts facts = { .state = foreign_weights_state(&model.file),
                           .counts_samples = model.file.position.samples >= 0,
                           .whole = !foreign_weights_folder(folder) };          /* it has no prefix */
    snprintf(facts.states_unread, sizeof facts.states_unread, "%s", model.file.states_unread);
    snprintf(facts.unknown, sizeof facts.unknown, "%s", model.file.unknown);
    if (*model.file.note) log_line("%s: %s", model.file.path, model.file.note);
    if (*model.ids_left) log_line(FOREIGN_IDS_LEFT, model.file.path, model.ids_left);
    json_t *object = json_loads(model.options, 0, NULL);
    char   *path   = *model.tokenizer ? realpath(model.tokenizer, NULL) : NULL;
    if (!json_object_get(object, "mtp-num-layers"))            /* no format has weights of them here */
        json_object_set_new(object, "mtp-num-layers", json_integer(0));
    json_object_set_new(object, "tokenizer", json_string(path ? path : TOKENIZER_NONE));
    char *options = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    *bytes = sizeof facts + (options ? strlen(options) + 1 : 0);
    if (options) *packed = malloc(*bytes);
    if (*packed) {
        memcpy(*packed, &facts, sizeof facts);
        memcpy(*packed + sizeof facts, options, *bytes - sizeof facts);
    }
    json_decref(object);
    free(options);
    free(path);
    foreign_model_close(&model);
    return *packed ? OK : fail(NO_MEMORY, "%s: no memory for its options", folder);
}

const char *foreign_weights_unpack(ForeignFacts *facts, const char *packed, size_t bytes)
{
    CHECK(bytes > sizeof *facts && !packed[bytes - 1], "facts of another program's checkpoint are cut");
    memcpy(facts, packed, sizeof *facts);
    return packed + sizeof *facts;
}

CheckpointState foreign_weights_table_state(const char *table, size_t bytes)
{
    ForeignFile file = { 0 };
    foreign_table_position(&file.position, &file.states, table, bytes);
    return foreign_weights_state(&file);
}

Status foreign_weights_table(char **table, size_t *bytes, const char *folder)
{
    ForeignModel model;
    TRY(source_open(&model, folder));
    Status status = foreign_table_write(table, bytes, &model);
    foreign_model_close(&model);
    return status;
}

/* Opens the files that a contiguous range is in. */
static Status run_open(ForeignFile *file, const Plan *plan, const PlanTensor *tensor, TensorShardRun run)
{
    for (int i = 0; i < tensor->copies; i++) {
        const PlanCopy *copy = &plan->copy[tensor->first + i];
        if (!copy->from->opened && plan_copy_reaches(copy, run.global, run.count))
            TRY(foreign_need(file, copy->from));
    }
    return OK;
}

/* One contiguous range; to the memory of a device by way of `buffer`. */
static void run_load(const Plan *plan, const PlanTensor *tensor, const TensorShard *shard, TensorShardRun run,
                     char *buffer)
{
    Dtype   dtype = shard->local.dtype;
    size_t  width = dtype_width(dtype);
    int64_t most = BUFFER_BYTES / (int64_t)width, n;
    for (int64_t done = 0; done < run.count; done += n) {
        n = run.count - done < most ? run.count - done : most;
        char *to = (char *)shard->local.data + (size_t)(run.local + done) * width;
        plan_gather(plan, tensor, run.global + done, n, shard->queue ? buffer : to, dtype);
        if (shard->queue) queue_write(shard->queue, to, buffer, (size_t)n * width);
    }
}

static Status shards_load(const Plan *plan, ForeignFile *file, const TensorShard *shards, int nshards)
{
    int64_t read = 0;
    char   *buffer = malloc(BUFFER_BYTES);
    Status  status = buffer ? OK : fail(NO_MEMORY, "%s: no memory to read it", file->path);
    for (int i = 0; i < nshards && status == OK; i++) {
        const PlanTensor *tensor = plan_find(plan, shards[i].name);
        TensorShardRun    run;
        int64_t           cursor = 0;
        if (!tensor) {
            status =
                fail(BAD_SHAPE, "%s: has nothing for tensor '%s' of this run; leave out the options of the "
                     "model, which the checkpoint says", file->path, shards[i].name);
            break;
        }
        while (status == OK && tensor_shard_next_run(&shards[i], &cursor, &run)) {
            if ((status = run_open(file, plan, tensor, run)) != OK) break;
            run_load(plan, tensor, &shards[i], run, buffer);
            read += run.count * (int64_t)dtype_width(tensor->dtype);
            if (read > RELEASE_BYTES) foreign_release(file), read = 0;
        }
    }
    free(buffer);
    return status;
}

Status foreign_weights_load(const char *table, size_t bytes, const ModelConfig *model,
                            const TensorShard *shards, int nshards, bool states, int rank, int ranks)
{
    ForeignModel from;
    Links links = { 0 };
    Plan  plan  = { 0 };
    TRY(foreign_table_read(&from, table, bytes));
    Status status = links_make(&links, from.naming, model);
    if (status == OK)
        status = plan_make(&plan,
            &(PlanRules){ &links, from.naming, TO_OURS, model->tied, model->layers, states }, &from.file);
    if (rank == 0 && plan.mtp_tensors) log_line("%s: %s", from.file.path, PLAN_MTP_LEFT);
    if (status == OK) status = plan_check_tied(&plan, &from.file, rank, ranks);
    for (int i = 0; i < plan.tensors && status == OK; i++)
        status = plan_verify(&plan, &from.file, &plan.tensor[i], rank, ranks);
    if (status == OK) status = shards_load(&plan, &from.file, shards, nshards);
    plan_free(&plan);
    links_free(&links);
    foreign_model_close(&from);
    return status;
}
