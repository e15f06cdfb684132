/* Shards of a rank out of a checkpoint of another program. One rank reads index and headers, and sends the
 * others a list of files and tensors; these open a file only where they need weights of it. */
#include "convert/weights/foreign_weights.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "convert/format.h"
#include "convert/plan.h"
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

/* ---- the list of files and tensors as bytes: each function writes a value, or reads it back, so that both
 * directions have one order ---- */

/* out: what is written, or NULL; at, end: what is left to read */
typedef struct { FILE *out; const char *at, *end; } Table;

static void pass(Table *t, void *value, size_t bytes)
{
    if (t->out) {
        fwrite(value, 1, bytes, t->out);
        return;
    }
    CHECK((size_t)(t->end - t->at) >= bytes, "a list of tensors ends too early");
    memcpy(value, t->at, bytes);
    t->at += bytes;
}

static int64_t pass_number(Table *t, int64_t value)
{
    pass(t, &value, sizeof value);
    return value;
}

/* With its NUL; a text that is read points into the list. */
static const char *pass_text(Table *t, const char *text)
{
    int64_t bytes = pass_number(t, text ? (int64_t)strlen(text) + 1 : 0);
    if (t->out) fwrite(text, 1, (size_t)bytes, t->out);
    else        text = t->at, t->at += bytes;
    CHECK(t->out || (bytes > 0 && bytes <= t->end - text), "a name in a list of tensors is too long");
    return text;
}

/* Bytes of no file are those of an empty piece, which nobody reads. */
static const char *pass_place(Table *t, const ForeignFile *file, const char *data)
{
    int     of = t->out ? foreign_map_of(file, data) : -1;
    int64_t map = pass_number(t, of < 0 ? 0 : of);
    int64_t at  = pass_number(t, of < 0 ? 0 : data - (const char *)file->map[of].data);
    CHECK(t->out || (map >= 0 && map < file->maps), "a list of tensors names file %lld of %d", (long long)map,
          file->maps);
    return t->out ? data : (const char *)file->map[map].data + at;
}

static Status pass_file(Table *t, ForeignFile *file, int i)
{
    FileMap     map;
    int         index;
    const char *path = pass_text(t, t->out ? file->map[i].path : NULL);
    size_t      size = (size_t)pass_number(t, t->out ? (int64_t)file->map[i].size : 0);
    if (t->out) return OK;
    TRY(*path || !size ? file_map_reserve(&map, path, size) : file_map_zeros(&map, size));
    return foreign_adopt(file, &index, &map);
}

static Status pass_sum(Table *t, ForeignFile *file, size_t i)
{
    ForeignSum sum = t->out ? file->sum[i] : (ForeignSum){ 0 };
    pass(t, &sum, sizeof sum);
    sum.data = pass_place(t, file, sum.data);
    sum.name = pass_place(t, file, sum.name);
    return t->out ? OK : foreign_sum(file, &sum);
}

static Status pass_tensor(Table *t, ForeignFile *file, int i)
{
    ForeignTensor tensor = t->out ? file->tensor[i] : (ForeignTensor){ 0 };
    const char   *name   = pass_text(t, tensor.name);
    pass(t, &tensor, sizeof tensor);
    if (!t->out) TRY(foreign_tensor(file, &i, tensor.kind, name, tensor.dtype, tensor.dims, tensor.shape));
    for (int p = 0; p < tensor.pieces; p++) {
        ForeignPiece piece = t->out ? tensor.piece[p] : (ForeignPiece){ 0 };
        pass(t, &piece, sizeof piece);
        piece.data = pass_place(t, file, piece.data);
        if (!t->out) TRY(foreign_piece(file, i, &piece));
    }
    return OK;
}

static void pass_position(Table *t, ForeignPosition *position, bool *states)
{
    pass(t, position, sizeof *position);
    *states = pass_number(t, *states) != 0;
}

static Status pass_all(Table *t, ForeignModel *model)
{
    ForeignFile    *file = &model->file;
    ForeignPosition position = file->position;
    bool            states = file->states;
    pass_position(t, &position, &states);
    model->naming = (Naming)pass_number(t, model->naming);
    const char *path = pass_text(t, t->out ? file->path : NULL);
    if (!t->out) foreign_begin(file, path);
    int64_t files = pass_number(t, file->maps);
    for (int i = 0; i < files; i++) TRY(pass_file(t, file, i));
    int64_t sums = pass_number(t, (int64_t)file->sums);
    for (int64_t i = 0; i < sums; i++) TRY(pass_sum(t, file, (size_t)i));
    int64_t tensors = pass_number(t, file->tensors);
    for (int i = 0; i < tensors; i++) TRY(pass_tensor(t, file, i));
    if (t->out) return OK;
    TRY(foreign_finish(file));
    file->position = position, file->states = states;
    return OK;
}

static Status table_write(char **table, size_t *bytes, ForeignModel *model)
{
    Table t = { .out = open_memstream(table, bytes) };
    bool  failed = !t.out || pass_all(&t, model) != OK || ferror(t.out);
    if (t.out && fclose(t.out) == 0 && !failed) return OK;
    if (t.out) free(*table);
    *table = NULL;
    return fail(NO_MEMORY, "%s: no memory for a list of its tensors", model->file.path);
}

/* Its files are reserved and not opened (foreign_need). On failure *model is closed. */
static Status table_read(ForeignModel *model, const char *table, size_t bytes)
{
    *model = (ForeignModel){ .step = -1, .samples = -1 };
    Status status = pass_all(&(Table){ NULL, table, table + bytes }, model);
    if (status != OK) foreign_model_close(model);
    return status;
}

CheckpointState foreign_weights_table_state(const char *table, size_t bytes)
{
    ForeignFile file = { 0 };
    pass_position(&(Table){ NULL, table, table + bytes }, &file.position, &file.states);
    return foreign_weights_state(&file);
}

Status foreign_weights_table(char **table, size_t *bytes, const char *folder)
{
    ForeignModel model;
    TRY(source_open(&model, folder));
    Status status = table_write(table, bytes, &model);
    foreign_model_close(&model);
    return status;
}

/* ---- shards ---- */

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
    TRY(table_read(&from, table, bytes));
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
