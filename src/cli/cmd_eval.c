#include <math.h>
#include <stdlib.h>
#include "base/file.h"
#include "cli/command.h"
#include "cli/setup.h"
#include "comm/watchdog.h"
#include "eval/windows.h"
#include "text/bytes.h"

typedef struct { const Options *o; Recipe recipe; int32_t *ids; int64_t count; } Task;

static void fill(void *context, Batch *batch, int64_t step, int micro) { windows_fill(context, batch, step, micro); }

static void show(const Task *task, double loss)
{
    double value[3] = { loss, exp(loss), loss / log(2) };
    char text[3][32];
    for (int i = 0; i < 3; i++) snprintf(text[i], sizeof text[i], isfinite(value[i]) ? "%.17g" : "null", value[i]);   /* JSON knows no inf */
    printf("{\"tokens\":%lld,\"loss\":%s,\"perplexity\":%s,\"bits_per_token\":%s}\n", (long long)(task->count - 1), text[0], text[1], text[2]);
}

static Status evaluate(Trainer *t, const Task *task)
{
    char path[1024];
    bool found;
    CheckpointState state = { .step = -1 };
    TRY(agree(t->world, checkpoint_find(task->recipe.load, path, &found)));
    TRY(agree(t->world, checkpoint_state(path, &state)));
    TRY(agree_on(t->world, state.step, "the step found in --load"));
    TRY(trainer_load(t, path));
    Windows w = { .ids = task->ids, .count = task->count, .shape = trainer_loader_shape(t) };
    double loss = trainer_evaluate(t, windows_steps(&w), fill, &w);
    if (!isfinite(loss)) return fail(BAD_FILE, "%s gives a loss that is not finite; its weights are broken", path);   /* same on every rank */
    if (t->mesh.rank == 0) show(task, loss);
    return OK;
}

static Status on_rank(Transport *transport, void *context)
{
    Task *task = context;
    Trainer t;
    Watchdog *dog = NULL;
    Status status = trainer_start(&t, &task->recipe, transport);
    if (status == OK) status = watchdog_open(&dog, t.world, task->recipe.watchdog);
    if (status == OK) status = evaluate(&t, task);
    if (dog) watchdog_close(dog, t.world);
    trainer_close(&t);
    return status;
}

static Status ids_of_text(Task *task, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    task->ids   = malloc((map.size + 1) * sizeof *task->ids);
    task->count = (int64_t)map.size;
    for (size_t i = 0; task->ids && i < map.size; i++) task->ids[i] = map.data[i];
    file_unmap(&map);
    return task->ids ? OK : fail(NO_MEMORY, "no memory for the %lld tokens of %s", (long long)task->count, path);
}

static Status ids_of_shard(Task *task, const char *prefix)
{
    Shard shard;
    TRY(shard_open(&shard, prefix));
    task->ids   = malloc(((size_t)shard.tokens + 1) * sizeof *task->ids);
    task->count = shard.tokens;
    Status status = task->ids ? OK : fail(NO_MEMORY, "no memory for the %lld tokens of %s", (long long)shard.tokens, prefix);
    for (int64_t i = 0; status == OK && i < shard.tokens; i++) {
        task->ids[i] = shard_token(&shard, i);
        if (task->ids[i] < 0 || task->ids[i] >= task->recipe.shape.vocabulary)
            status = fail(BAD_SHAPE, "%s.bin: token %lld is id %d, and the model has %lld; it was prepared for another tokenizer", prefix,
                          (long long)i, (int)task->ids[i], (long long)task->recipe.shape.vocabulary);
    }
    shard_close(&shard);
    return status;
}

static Status run(Options *o, Task *task, int argc, char **argv)
{
    Transport *mpi;
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_EVAL, argc, argv));
    TRY(setup_recipe(&task->recipe, o));
    Recipe *r = &task->recipe;
    r->shape.sequence = o->context;
    r->global = r->micro * options_data_parallel(o);
    TRY(o->text ? ids_of_text(task, o->text) : ids_of_shard(task, o->data_path.text[0]));
    if (task->count < 2) return fail(BAD_FILE, "%s holds %lld tokens; perplexity wants two or more", o->text ? o->text : o->data_path.text[0], (long long)task->count);
    return setup_run(o, mpi, on_rank, task);
}

Status cmd_perplexity(int argc, char **argv)
{
    Options o;
    Task task = { 0 };
    Status status = run(&o, &task, argc, argv);
    free(task.ids);
    options_close(&o);
    return status;
}
