/* Prompts of different lengths, more or fewer than there are rows, on the trainer of a training run. */
#include "layouts/generate.h"
#include "base/integer.h"
#include "base/random.h"
#include "generate/generate.h"

enum { PROMPTS = 5, NEW = GENERATED / PROMPTS, WORDS = 250, SESSION_BYTES = 16 << 20 };

typedef struct { int32_t *ids; int made[PROMPTS]; } Text;

static void keep(void *context, int64_t prompt, int32_t id)
{
    Text *text = context;
    if (id != GENERATED_END) text->ids[prompt * NEW + text->made[prompt]++] = id;
}

Status layout_generate(Trainer *t, int32_t ids[GENERATED])
{
    Arena arena;
    Prompt prompt[PROMPTS];
    Text text = { .ids = ids };
    int32_t words[64];
    int64_t longest = t->config->model.sequence - NEW;
    CHECK(longest >= 1 && longest <= 64, "prompts of up to %lld ids", (long long)longest);
    for (int64_t i = 0; i < longest; i++) words[i] = (int32_t)(random_bits(random_key(2, "prompt"), (uint64_t)i) % WORDS);
    for (int p = 0; p < PROMPTS; p++) prompt[p] = (Prompt){ words, 1 + (p * 7 + 3) % longest, NEW };
    TRY(agree(t->comms.world, arena_open(&arena, "session", SESSION_BYTES)));
    bool apart = trainer_evaluates_apart(t);             /* the forward schedule is that of evaluations, with their micro-batches */
    int64_t rows = train_config_valid_micro(t->config) * t->config->model.sequence / t->mesh.size.cp;
    generate(&(EngineSetup){ .executor = apart ? &t->valid.executor : &t->train.executor, .pipeline = apart ? &t->valid.pipeline : &t->train.pipeline,
        .schedule = &t->valid.schedule, .world = t->comms.world, .tp = t->comms.tp, .cp = t->comms.cp, .pp = t->comms.pp, .data = t->comms.dp_cp, .arena = &arena,
        .rows = rows, .sequences = least(train_config_valid_micro(t->config) * t->valid.micros, rows), .page = 3,
        .capacity = t->config->model.sequence, .end = -1, .context = &text }, prompt, PROMPTS, &(Sampling){ .temperature = 0 }, keep);
    arena_close(&arena);
    return OK;
}
