/* jotun generate: continues --prompt, or each line of --prompt-file or --prompt-jsonl, with the model of a
 * checkpoint, on one rank or many. Data-parallel ranks share the prompts; rank 0 prints. */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/integer.h"
#include "base/log.h"
#include "base/random.h"
#include "cli/command.h"
#include "cli/generation/continuations.h"
#include "cli/generation/engine_setup.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "conf/generation/generation.h"
#include "store/logits_file.h"

typedef struct {
    const Options *o;
    TrainConfig    config;
    Tokenizer      tokenizer;
    Prompts        prompts;
    GenerationSize size;
    StopWord      *stop;                         /* [o->stop.count] */
} Task;

/* Of one rank. logits: on the ranks that write theirs */
typedef struct { const Task *task; LogitsFile *logits; } Rank;

static void see_logits(void *context, int64_t number, int64_t generated, const double *logits)
{
    const Rank *rank = context;
    if (rank->logits) logits_file_put(rank->logits, number, generated, logits);
}

static void look_at(void *context, EngineSetup *setup)
{
    const Rank *rank = context;
    setup->see_logits = rank->task->o->save_logits ? see_logits : NULL;
    setup->context    = context;
}

/* Of the ranks that draw the same ids one writes their logits. */
static Status logits_begin(Trainer *t, Rank *rank, LogitsFile *file)
{
    const Task *task = rank->task;
    LogitsShape shape = { task->o->save_logits, task->prompts.count, task->prompts.most,
                          task->config.model.vocabulary };
    Status status = OK;
    if (!shape.path) return OK;
    if (t->mesh.rank == 0) status = logits_file_create(file, &shape);
    TRY(agree(t->comms.world, status));
    if (t->mesh.at.tp == 0 && t->mesh.at.cp == 0) {
        status = logits_file_open(file, &shape);
        rank->logits = file;
    }
    return agree(t->comms.world, status);
}

static Status logits_end(Trainer *t, Rank *rank, LogitsFile *file, Status status)
{
    Status closed = rank->logits ? logits_file_close(file) : OK;
    rank->logits = NULL;
    if (!rank->task->o->save_logits) return status;
    if (status == OK) status = agree(t->comms.world, closed);
    if (status == OK) status = agree(t->comms.world, t->mesh.rank == 0 ? logits_file_name(file) : OK);
    if (status != OK) logits_file_remove(file);
    return status;
}

/* Rank 0 asks and prints. */
static Status print(void *context, Trainer *t, Engine *engine)
{
    Rank *rank = context;
    const Task *task = rank->task;
    const Options *o = task->o;
    Continuations out = { 0 };
    LogitsFile logits = { .fd = -1 };
    bool lines = o->prompt_file || o->prompt_jsonl || o->return_sequences > 1 || o->logprobs >= 0;
    Status status = OK;
    if (t->mesh.rank == 0)
        status = continuations_open(&out, &task->tokenizer, &task->prompts, o->return_sequences, lines,
                                    stdout);
    status = agree(t->comms.world, status);
    if (status == OK) status = logits_begin(t, rank, &logits);
    if (status == OK) {
        RequestSource source = continuations_source(&out);
        engine_run(engine, t->mesh.rank == 0 ? &source : NULL);               /* <-> all axes */
        if (t->mesh.rank == 0 && lines) continuations_tell(&out);
        status = agree(t->comms.world, out.status);
    }
    status = logits_end(t, rank, &logits, status);
    continuations_close(&out);
    return status;
}

static Status on_rank(Transport *transport, void *context)
{
    const Task *task = context;
    Rank rank = { .task = task };
    return generation_run(transport, &(GenerationRun){ .config = &task->config, .size = &task->size,
        .tokenizer = &task->tokenizer, .setup = look_at, .work = print, .context = &rank });
}

/* A data rank continues up to --micro-batch-size prompts in one micro-batch, and has as many micro-batches as
 * there are stages; a beam is as a prompt. */
static void fit(Task *task)
{
    const Options *o = task->o;
    const Prompts *p = &task->prompts;
    int64_t dp = options_data_parallel(o), all = p->count * o->return_sequences, beams = 1;
    for (int64_t i = 0; i < p->count; i++) beams = most_of(beams, p->rule[i].beams);
    int64_t each = least(divide_up(all, dp), o->prompts_at_once * o->pipeline_parallel);
    /* several chunks of a prompt fill the stages of a pipeline */
    int64_t chunk = most_of(CHUNK_THROUGHPUT / o->pipeline_parallel, CHUNK_LATENCY);
    task->size = (GenerationSize){ .widest = p->widest, .chunk = chunk, .capacity = p->capacity,
                                   .sequences = each * beams };
    /* a beam has a page more than its text (scheduler.c) */
    if (beams > 1)
        task->size.pages = task->size.sequences *
                           (divide_up(p->capacity, PAGE_POSITIONS * o->context_parallel) + 1);
    generation_fit(&task->config, o, &task->size);
}

/* What each rank reads by itself before the ranks start. */
static Status prepare(Task *task, Options *o)
{
    TRY(setup_train_config(&task->config, o));
    TRY(setup_open_tokenizer(&task->tokenizer, o));
    task->stop = calloc((size_t)o->stop.count + 1, sizeof *task->stop);
    if (!task->stop) return fail(NO_MEMORY, "no memory for %d stop words", o->stop.count);
    for (int i = 0; i < o->stop.count; i++)
        task->stop[i] = (StopWord){ (char *)(uintptr_t)o->stop.text[i], (int64_t)strlen(o->stop.text[i]) };
    const char *file = o->prompt_jsonl ? o->prompt_jsonl : o->prompt_file;
    PromptsAsked asked = { .option = "--prompt", .text = &o->prompt, .texts = file ? 0 : 1,
        .file = file, .json = o->prompt_jsonl != NULL,
        .rule = { .sampling = setup_sampling(o), .logprobs = (int)o->logprobs, .beams = (int)o->beams,
                  .length_penalty = o->length_penalty, .stop = task->stop, .stops = o->stop.count,
                  .typed = generation_typed(o) },
        .each = o->return_sequences, .encoding = o->input_encoding,
        .most_option = "--max-new-tokens", .most = o->max_new_tokens,
        .most_typed = options_typed_by_person(o, OPTION_max_new_tokens) };
    TRY(prompts_read(&task->prompts, &asked, &task->tokenizer, &task->config.model));
    for (int64_t i = 0; o->save_logits && i < task->prompts.count; i++)
        if (task->prompts.rule[i].beams > 0)
            return fail(BAD_OPTION, "--save-logits writes the logits of one text of each prompt, and prompt "
                        "%lld of %s wants num_beams %d; leave out one of these", (long long)i + 1, file,
                        task->prompts.rule[i].beams);
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
    /* A temperature of 0 takes the most probable token, whatever limits the sampling. */
    static const OptionIndex idle[] = { OPTION_top_k, OPTION_top_p, OPTION_min_p, OPTION_sampling_seed };
    for (size_t i = 0; o->temperature <= 0 && i < COUNT(idle); i++)
        if (options_typed_by_person(o, idle[i]))
            log_line("%s has no effect with --temperature 0", o->source[idle[i]].name);
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
    free(task.stop);
    options_close(&o);
    return status;
}
