#include "cli/generation/training_samples.h"
#include <stdlib.h>
#include <string.h>
#include "base/integer.h"
#include "base/random.h"
#include "cli/setup/tokenizer.h"
#include "serve/served_text.h"
#include "base/utf8.h"
#include "text/bytes.h"
#include "train/trainer.h"

/* ---- one sample of each prompt ---- */

static void emit(void *texts, int64_t prompt, int32_t id)
{
    ServedText *text = texts;
    if (!text || id == GENERATED_END) return;
    CHECK(served_text_put(&text[prompt], &(GeneratedToken){ .id = id }) == OK, "%s", fail_text());
}

/* UTF-8 with a zero at its end; what is not UTF-8, which tokens of bytes can make, becomes U+FFFD. */
static const char *repaired(Buffer *out, const char *text, int64_t bytes)
{
    out->bytes = 0;
    CHECK(utf8_repair(out, text, bytes) == OK && buffer_string(out), "no memory for a sample of text");
    return out->text;
}

/* Ends the texts, which it closes. */
static void hand_over(const Prompts *p, ServedText *text, SampleTake *take, void *report)
{
    Buffer prompt = { 0 }, made = { 0 };
    for (int64_t i = 0; i < p->count; i++) {
        CHECK(served_text_end(&text[i], TEXT_LENGTH) == OK, "%s", fail_text());
        take(report, i + 1, repaired(&prompt, p->text[i].text, p->text[i].bytes),
             repaired(&made, text[i].raw, text[i].shown));
        served_text_close(&text[i]);
    }
    buffer_free(&prompt);
    buffer_free(&made);
}

/* One micro-batch at a time on each data-parallel rank, of no more positions than a slot of the trainer
 * has. */
static void make(const Sampler *sampler, Trainer *t, SampleTake *take, void *report)
{
    const TrainingSamples *s = sampler->context;
    const Prompts *p = &s->prompts;
    StageExecutor *executor = &t->train.executor;
    Arena *arena = &t->arena[ARENA_SAMPLES];
    Schedule schedule;
    ServedText *text = NULL;                 /* of each prompt, on rank 0: the others get no ids */
    int64_t each = divide_up(p->count, t->mesh.size.dp);
    int shared = t->config->sequence_parallel ? t->mesh.size.tp : 1;
    int64_t slot_rows = t->config->micro * t->config->model.sequence / t->mesh.size.cp;
    ScheduleShape shape = train_config_schedule(t->config, 1);
    shape = (ScheduleShape){ .kind = SCHEDULE_FORWARD, .stages = shape.stages, .chunks = shape.chunks,
                             .micros = 1, .v_shaped = shape.v_shaped };
    CHECK(schedule_make(&schedule, &shape, t->mesh.at.pp) == OK, "%s", fail_text());
    if (take && t->mesh.rank == 0) {
        text = calloc((size_t)p->count, sizeof *text);
        CHECK(text, "no memory for %lld samples", (long long)p->count);
        for (int64_t i = 0; i < p->count; i++)
            CHECK(served_text_open(&text[i], &s->tokenizer, NULL, 0, -1, NULL) == OK, "%s", fail_text());
    }
    size_t mark = arena_mark(arena);
    Sampling sampling = { .temperature = s->temperature,
                          .seed = random_mix(t->config->seed, (uint64_t)t->run.step) };
    generate(&(EngineSetup){ .executor = executor, .pipeline = &t->train.pipeline, .schedule = &schedule,
        .world = t->comms.world, .tp = t->comms.tp, .cp = t->comms.cp, .pp = t->comms.pp, .data =
            t->comms.dp_cp, .arena = arena,
        .rows = least(slot_rows, engine_rows(p->widest, CHUNK_LATENCY, each, shared)),
        .sequences = least(each, slot_rows),
        .capacity = p->capacity, .ids = s->tokenizer.vocabulary, .end = s->tokenizer.eod,
        .not_finite_ends = true,
        .context = text }, p->prompt, p->count, &sampling, emit);           /* <-> all axes */
    arena_reset(arena, mark);
    schedule_free(&schedule);
    if (text) hand_over(p, text, take, report);
    free(text);
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
