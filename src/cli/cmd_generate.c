/* jotun generate: continues --prompt, or each line of --prompt-file, with the model of a checkpoint, on one
 * rank or many. Data-parallel ranks share the prompts; rank 0 prints. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/random.h"
#include "cli/command.h"
#include "cli/generation/continuations.h"
#include "cli/generation/logits_file.h"
#include "cli/setup/setup.h"

/* rows, micros: of a data rank, as in Generation */
typedef struct {
    const Options *o;
    TrainConfig    config;
    Tokenizer      tokenizer;
    Prompts        prompts;
    int64_t        rows;
    int            micros;
} Task;

/* Of one rank. out: on rank 0 alone; logits: on the ranks that write theirs; made: [prompts], owned, the new
 * tokens of each so far */
typedef struct {
    const Task    *task;
    Arena          session;
    Continuations *out;
    LogitsFile    *logits;
    int64_t       *made;
} Rank;

static void emit(void *context, int64_t prompt, int32_t id)
{
    const Rank *rank = context;
    if (rank->made) rank->made[prompt]++;
    if (rank->out) continuations_take(rank->out, prompt, id);
}

static void look(void *context, int64_t prompt, const double *logits)
{
    const Rank *rank = context;
    if (rank->logits) logits_file_put(rank->logits, prompt, rank->made[prompt], logits);
}

/* Dry, for the size of the session's memory and of all arenas, and then real. */
static void work(Trainer *t, void *context)
{
    Rank *rank = context;
    const Task *task = rank->task;
    generate(&(Generation){ .executor = &t->executor, .pipeline = &t->pipeline,
        .schedule = &t->valid_schedule, .tp = t->tp, .cp = t->cp, .pp = t->pp,
        .data = t->data_comm, .arena = &rank->session, .rows = task->rows,
        .micros = task->micros, .capacity = task->prompts.capacity,
        .most = task->prompts.most, .ids = task->tokenizer.vocabulary,
        .end = task->tokenizer.eod, .sampling = setup_sampling(task->o), .emit = emit, .look = look,
        .context = rank },
        task->prompts.prompt, task->prompts.count);
}

static Status load(Trainer *t, const TrainConfig *config)
{
    char path[1024];
    bool found;
    CheckpointState state = { .step = -1 };
    /* A checkpoint exists, because setup_options has read its options; `found` needs no look. */
    TRY(agree(t->world, trainer_find(config->load, path, &found, &state)));
    TRY(agree_on(t->world, state.step, "the step found in --load"));
    watchdog_work(t->world, "loading");
    Status status = trainer_load(t, path);
    watchdog_work(t->world, NULL);
    return status;
}

/* Of the ranks that draw the same ids one writes their logits. */
static Status logits_begin(Trainer *t, Rank *rank, LogitsFile *file)
{
    const Task *task = rank->task;
    const char *path = task->o->save_logits;
    int64_t prompts = task->prompts.count, most = task->prompts.most, V = task->config.model.vocabulary;
    Status status = OK;
    if (!path) return OK;
    if (t->mesh.rank == 0) status = logits_file_create(file, path, prompts, most, V);
    TRY(agree(t->world, status));
    if (t->mesh.at.tp == 0 && t->mesh.at.cp == 0) {
        rank->made = calloc((size_t)prompts, sizeof *rank->made);
        status = rank->made ? logits_file_open(file, path, prompts, most, V)
                            : fail(NO_MEMORY, "no memory to count the tokens of %lld prompts",
                                   (long long)prompts);
        rank->logits = file;
    }
    return agree(t->world, status);
}

static Status logits_end(Trainer *t, Rank *rank, LogitsFile *file, Status status)
{
    Status closed = rank->logits ? logits_file_close(file) : OK;
    free(rank->made);
    rank->made   = NULL;
    rank->logits = NULL;
    if (!rank->task->o->save_logits || status != OK) return status;
    TRY(agree(t->world, closed));
    return agree(t->world, t->mesh.rank == 0 ? logits_file_name(file) : OK);
}

/* Rank 0 prints. */
static Status print(Trainer *t, Rank *rank)
{
    const Task *task = rank->task;
    Continuations out = { 0 };
    LogitsFile logits = { .fd = -1 };
    Status status = OK;
    if (t->mesh.rank == 0)
        status = continuations_open(&out, &task->tokenizer, &task->prompts, task->o->prompt_file, stdout);
    status = agree(t->world, status);
    rank->out = t->mesh.rank == 0 ? &out : NULL;
    if (status == OK) status = logits_begin(t, rank, &logits);
    if (status == OK) {
        work(t, rank);                                                        /* <-> tp, pp, dp */
        status = agree(t->world, out.status);
    }
    status = logits_end(t, rank, &logits, status);
    continuations_close(&out);
    return status;
}

static Status on_rank(Transport *transport, void *context)
{
    const Task *task = context;
    Rank rank = { .task = task };
    Trainer t;
    arena_dry(&rank.session, "session");
    if (strcmp(task->config.device, "cuda") == 0)
        return fail(BAD_OPTION, "--device cuda trains and evaluates, and does not generate yet; give "
                    "--device cpu");
    Status status = trainer_start_work(&t, &task->config, transport, work, &rank);
    size_t bytes = rank.session.peak;
    arena_close(&rank.session);
    if (status == OK) status = agree(t.world, arena_open(&rank.session, "session", bytes));
    if (status == OK) status = load(&t, &task->config);
    if (status == OK) status = print(&t, &rank);
    arena_close(&rank.session);
    trainer_close(&t);
    return status;
}

/* A data rank continues up to --micro-batch-size prompts in one forward, and has as many micro-batches as
 * there are stages; where the prompts are fewer, first the stages get one each. A batch is as wide as the
 * widest prompt, and as context-parallel ranks and those of sequence parallelism can share. */
static void fit(Task *task)
{
    const Options *o = task->o;
    TrainConfig *config = &task->config;
    int64_t dp = options_data_parallel(o), each = (task->prompts.count + dp - 1) / dp;
    int64_t cp = o->context_parallel, shared = o->sequence_parallel ? o->tensor_parallel : 1;
    if (cp > 1) shared *= 2 * cp;                            /* two parts of a sequence on each rank */
    task->micros = (int)(each < o->pipeline_parallel ? each : o->pipeline_parallel);
    task->rows   = (each + task->micros - 1) / task->micros;
    if (task->rows > o->prompts_at_once) task->rows = o->prompts_at_once;
    config->micro  = task->rows;
    config->global = task->rows * task->micros * dp;
    config->model.sequence  = (task->prompts.widest + shared - 1) / shared * shared;
    config->model.moe.capacity_factor = 0;         /* a text would depend on the others of its batch */
}

/* A temperature of 0 takes the most probable token, whatever limits the sampling. */
static void report_greedy(const Options *o)
{
    static const OptionIndex idle[] = { OPTION_top_k, OPTION_top_p, OPTION_sampling_seed };
    for (size_t i = 0; o->temperature <= 0 && i < sizeof idle / sizeof idle[0]; i++)
        if (options_typed_by_person(o, idle[i]))
            log_line("%s has no effect with --temperature 0", o->source[idle[i]].name);
}

/* What each rank reads by itself before the ranks start. */
static Status prepare(Task *task, Options *o)
{
    TRY(setup_train_config(&task->config, o));
    TRY(tokenizer_open(&task->tokenizer, o->tokenizer));
    PromptsAsked asked = { .option = "--prompt", .text = &o->prompt, .texts = o->prompt_file ? 0 : 1,
        .file = o->prompt_file, .most_option = "--max-new-tokens", .most = o->max_new_tokens,
        .most_typed = options_typed_by_person(o, OPTION_max_new_tokens) };
    TRY(prompts_read(&task->prompts, &asked, &task->tokenizer, &task->config.model));
    fit(task);
    return OK;
}

/* "3 prompts of 120 tokens, hash 0123456789abcdef" */
static void prompts_shown(char out[128], const Prompts *p)
{
    uint64_t hash = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < p->count; i++) {
        hash = random_mix(hash, (uint64_t)p->prompt[i].count);
        for (int64_t n = 0; n < p->prompt[i].count; n++)
            hash = random_mix(hash, (uint32_t)p->prompt[i].id[n]);
        tokens += p->prompt[i].count;
    }
    snprintf(out, 128, "%lld prompts of %lld tokens, hash %016llx", (long long)p->count, (long long)tokens,
             (unsigned long long)hash);
}

static Status run(Task *task, Options *o, int argc, char **argv)
{
    Transport *mpi;
    char prompts[128];
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_GENERATE, argc, argv));
    report_greedy(o);
    TRY(setup_agree(mpi, prepare(task, o)));
    prompts_shown(prompts, &task->prompts);
    TRY(setup_agree_on(mpi, prompts, "give all hosts the same prompts and --tokenizer"));
    return setup_run(o, mpi, on_rank, task);
}

Status cmd_generate(int argc, char **argv)
{
    Options o;
    Task task = { 0 };
    Status status = run(&task, &o, argc, argv);
    prompts_close(&task.prompts);
    tokenizer_close(&task.tokenizer);
    options_close(&o);
    return status;
}
