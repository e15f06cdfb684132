/* jotun generate: continues --prompt with the model of a checkpoint and prints each token as soon as it is
 * sampled. One rank of this process does it; the length of the key-value cache is that of the prompt and the
 * new tokens. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "cli/command.h"
#include "cli/setup.h"
#include "serve/generate.h"
#include "text/decoder.h"

/* prompt: [count] ids, owned by the task */
typedef struct {
    const Options *o;
    TrainConfig    config;
    Tokenizer      tokenizer;
    int32_t       *prompt;
    int64_t        count;
} Task;

static void write_id(void *decoder, int32_t id)
{
    decoder_put(decoder, stdout, id);
    fflush(stdout);
}

static Status generate_with(Trainer *t, const Task *task)
{
    const Options *o = task->o;
    Arena session;
    Decoder said = { .tokenizer = &task->tokenizer, .goes_on = true };
    Generation g = { .capacity = t->config->model.sequence, .ids = task->tokenizer.vocabulary,
                     .end = task->tokenizer.eod,
                     .emit = write_id, .context = &said,
                     .sampling = setup_sampling(o) };
    TRY(arena_open(&session, "session", generate_bytes(&t->config->model, t->precision, g.capacity)));
    printf("%s", o->prompt);
    generate(&t->executor, &session, &g, task->prompt, task->count);
    decoder_end(&said, stdout);
    putchar('\n');
    arena_close(&session);
    return OK;
}

static Status on_rank(Transport *transport, void *context)
{
    Task *task = context;
    Trainer t;
    char path[1024];
    bool found;
    Status status = trainer_start(&t, &task->config, transport);
    /* A checkpoint exists, because setup_options has read its options; `found` needs no look. */
    if (status == OK) status = checkpoint_find(task->config.load, path, &found);
    if (status == OK) status = trainer_load(&t, path);
    if (status == OK) status = generate_with(&t, task);
    trainer_close(&t);
    return status;
}

static const char *tokens_text(char out[32], int64_t count)
{
    snprintf(out, 32, "%lld token%s", (long long)count, count == 1 ? "" : "s");
    return out;
}

/* Reports why `made` tokens after this prompt exceed the learned positions, and which lengths are
 * possible. */
static Status too_long(const Task *task, int64_t made)
{
    int64_t most = task->config.model.positions, left = most - task->count;
    bool    keeps   = options_typed_by_person(task->o, OPTION_max_new_tokens) && made < most;
    int64_t shorter = keeps ? most - made : most - 1;
    char prompt[32], wanted[32];
    tokens_text(prompt, task->count);
    tokens_text(wanted, shorter);
    if (left < 1)
        return fail(BAD_OPTION, "--prompt of %s leaves nothing of the %lld positions the model has learned; "
                    "shorten the prompt to %s or less", prompt, (long long)most, wanted);
    if (made >= most)
        return fail(BAD_OPTION, "--max-new-tokens %lld is more than the %lld positions the model has "
                    "learned; beside this prompt %lld or less is possible", (long long)made, (long long)most,
                    (long long)left);
    return fail(BAD_OPTION, "--prompt of %s and --max-new-tokens %lld are more than the %lld positions the "
                "model has learned; shorten the prompt to %s or give --max-new-tokens %lld", prompt,
                (long long)made, (long long)most, wanted, (long long)left);
}

/* Learned position embeddings limit the length. The default of --max-new-tokens is reduced to the limit, with
 * a line in the log; a number that the user gave is an error instead. */
static Status fit_learned(const Task *task, int64_t *made)
{
    int64_t left = task->config.model.positions - task->count;
    if (*made <= left) return OK;
    if (left < 1 || options_typed_by_person(task->o, OPTION_max_new_tokens)) return too_long(task, *made);
    char fitting[32];
    log_line("makes %s, not %lld (default): the model has learned no more than %lld positions",
             tokens_text(fitting, left), (long long)*made, (long long)task->config.model.positions);
    *made = left;
    return OK;
}

/* Keeps the shape as trained, except that the sequence is as long as the prompt and the new tokens. */
static Status fit(Task *task)
{
    ModelConfig *s = &task->config.model;
    int64_t made = task->o->max_new_tokens;
    if (s->position == POSITION_LEARNED) TRY(fit_learned(task, &made));
    s->sequence = task->count + made;
    return OK;
}

static Status prompt_encode(Task *task, const char *prompt)
{
    const Tokenizer *t = &task->tokenizer;
    int64_t bytes = (int64_t)strlen(prompt);
    task->prompt = malloc((size_t)(tokenizer_max_ids(t, prompt, bytes) + 1) * sizeof *task->prompt);
    if (!task->prompt) return fail(NO_MEMORY, "no memory for a prompt of %lld bytes", (long long)bytes);
    task->count = t->encode(t, task->prompt, prompt, bytes);
    if (task->count < 0) return BAD_FILE;                        /* encode has written the message */
    if (bytes == 0)
        return fail(BAD_OPTION, "--prompt is empty; give the text to continue, of at least one character");
    if (task->count) return OK;
    return fail(BAD_OPTION, "--prompt \"%s\" has no ids in --tokenizer %s; give a text to continue", prompt,
                t->name);
}

/* A temperature of 0 takes the most probable token, whatever limits the sampling. */
static void report_greedy(const Options *o)
{
    static const OptionIndex idle[] = { OPTION_top_k, OPTION_top_p, OPTION_sampling_seed };
    for (size_t i = 0; o->temperature <= 0 && i < sizeof idle / sizeof idle[0]; i++)
        if (options_typed_by_person(o, idle[i]))
            log_line("%s has no effect with --temperature 0", o->source[idle[i]].name);
}

static Status run(Task *task, Options *o, int argc, char **argv)
{
    Transport *mpi;
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_GENERATE, argc, argv));
    report_greedy(o);
    TRY(setup_train_config(&task->config, o));
    TRY(tokenizer_open(&task->tokenizer, o->tokenizer));
    TRY(prompt_encode(task, o->prompt));
    TRY(fit(task));
    return transport_threads_run(1, on_rank, task);
}

Status cmd_generate(int argc, char **argv)
{
    Options o;
    Task task = { 0 };
    Status status = run(&task, &o, argc, argv);
    free(task.prompt);
    tokenizer_close(&task.tokenizer);
    options_close(&o);
    return status;
}
