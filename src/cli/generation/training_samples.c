#include "cli/generation/training_samples.h"
#include <stdlib.h>
#include <string.h>
#include "base/integer.h"
#include "base/random.h"
#include "cli/setup/tokenizer.h"
#include "base/utf8.h"
#include "text/bytes.h"
#include "text/decoder.h"
#include "train/trainer.h"

/* ---- one sample of each prompt ---- */

/* The ids of each prompt; emit fills them on rank 0, the others ask for none; most: of a prompt */
typedef struct { int32_t *id; int64_t *count, most; } Drawn;

static void emit(void *context, int64_t prompt, int32_t id)
{
    Drawn *drawn = context;
    if (drawn->id && id != GENERATED_END) drawn->id[prompt * drawn->most + drawn->count[prompt]++] = id;
}

/* UTF-8 with a zero at its end; what is not UTF-8, which tokens of bytes can make, becomes U+FFFD. */
static void repaired(Buffer *out, const char *text, int64_t bytes)
{
    Status status = utf8_repair(out, text, bytes);
    if (status == OK) status = buffer_add(out, "", 1);
    CHECK(status == OK, "%s", fail_text());
}

static void hand_over(const TrainingSamples *s, const Drawn *drawn, SampleTake *take, void *report)
{
    for (int64_t i = 0; i < s->prompts.count; i++) {
        Decoder decoder = { .tokenizer = &s->tokenizer, .continues = true };
        Buffer prompt = { 0 }, text = { 0 };
        char *raw = NULL;
        size_t bytes = 0;
        FILE *memory = open_memstream(&raw, &bytes);
        CHECK(memory, "no memory for a sample of %lld tokens", (long long)drawn->count[i]);
        for (int64_t n = 0; n < drawn->count[i]; n++)
            decoder_put(&decoder, memory, drawn->id[i * drawn->most + n]);
        decoder_end(&decoder, memory);
        CHECK(fclose(memory) == 0, "no memory for a sample of %lld tokens", (long long)drawn->count[i]);
        repaired(&prompt, s->prompts.text[i].text, s->prompts.text[i].bytes);
        repaired(&text, raw, (int64_t)bytes);
        take(report, i + 1, prompt.text, text.text);
        buffer_free(&prompt);
        buffer_free(&text);
        free(raw);
    }
}

/* One micro-batch at a time on each data-parallel rank, of no more positions than a slot of the trainer
 * has. */
static void make(const Sampler *sampler, Trainer *t, SampleTake *take, void *report)
{
    const TrainingSamples *s = sampler->context;
    const Prompts *p = &s->prompts;
    StageExecutor *executor = &t->executor;
    Arena *arena = &t->arena[ARENA_SAMPLES];
    Schedule schedule;
    Drawn drawn = { .most = p->most };
    int64_t each = divide_up(p->count, t->mesh.size.dp);
    int shared = t->config->sequence_parallel ? t->mesh.size.tp : 1;
    int64_t slot_rows = t->config->micro * t->config->model.sequence / t->mesh.size.cp;
    ScheduleShape shape = train_config_schedule(t->config, 1);
    shape = (ScheduleShape){ .kind = SCHEDULE_FORWARD, .stages = shape.stages, .chunks = shape.chunks,
                             .micros = 1, .v_shaped = shape.v_shaped };
    CHECK(schedule_make(&schedule, &shape, t->mesh.at.pp) == OK, "%s", fail_text());
    if (take && t->mesh.rank == 0) {
        drawn.id    = malloc((size_t)(p->count * p->most) * sizeof *drawn.id);
        drawn.count = calloc((size_t)p->count, sizeof *drawn.count);
        CHECK(drawn.id && drawn.count, "no memory for samples of %lld tokens", (long long)(p->count * p->most));
    }
    size_t mark = arena_mark(arena);
    Sampling sampling = { .temperature = s->temperature,
                          .seed = random_mix(t->config->seed, (uint64_t)t->step) };
    generate(&(EngineSetup){ .executor = executor, .pipeline = &t->pipeline, .schedule = &schedule,
        .world = t->world, .tp = t->tp, .cp = t->cp, .pp = t->pp, .data = t->data_comm, .arena = arena,
        .rows = least(slot_rows, engine_rows(p->widest, CHUNK_LATENCY, each, shared)),
        .sequences = least(each, slot_rows),
        .capacity = p->capacity, .ids = s->tokenizer.vocabulary, .end = s->tokenizer.eod,
        .not_finite_ends = true,
        .context = &drawn }, p->prompt, p->count, &sampling, emit);           /* <-> all axes */
    arena_reset(arena, mark);
    schedule_free(&schedule);
    if (drawn.id) hand_over(s, &drawn, take, report);
    free(drawn.id);
    free(drawn.count);
}

/* ---- */

static Status refuse(const Options *o, const TrainConfig *config)
{
    bool unnamed = o->source[OPTION_tokenizer].kind == SOURCE_DEFAULT;
    if (strcmp(config->device, "cuda") == 0)
        return fail(BAD_OPTION, "--device cuda makes no samples of text yet; leave out --sample-interval, or "
                    "give --device cpu");
    if (setup_without_tokenizer(o) || (unnamed && config->model.vocabulary != BYTES_IDS))
        return fail(BAD_OPTION, "--sample-interval encodes its prompts: give the --tokenizer that the tokens "
                    "were made with");
    return OK;
}

Status training_samples_open(TrainingSamples *s, const Options *o, TrainConfig *config)
{
    *s = (TrainingSamples){ .temperature = o->sample_temperature };
    if (o->sample_interval == 0) return OK;
    PromptsAsked asked = { .option = "--sample-prompt", .text = o->sample_prompts.text,
        .texts = o->sample_prompts.count, .most_option = "--sample-max-new-tokens", .most = o->sample_tokens,
        .most_typed = options_typed_by_person(o, OPTION_sample_tokens) };
    TRY(refuse(o, config));
    Status status = setup_open_tokenizer(&s->tokenizer, o);
    if (status == OK) status = prompts_read(&s->prompts, &asked, &s->tokenizer, &config->model);
    if (status == OK && s->prompts.widest > config->model.sequence)
        status = fail(BAD_OPTION, "--sample-prompt of %lld tokens is longer than --seq-length %lld; shorten "
                      "it to as many", (long long)s->prompts.widest, (long long)config->model.sequence);
    if (status != OK) training_samples_close(s);
    config->sampler = (Sampler){ .interval = o->sample_interval, .make = make, .context = s };
    return status;
}

void training_samples_close(TrainingSamples *s)
{
    prompts_close(&s->prompts);
    tokenizer_close(&s->tokenizer);
}
