/* A source of requests that is an array of prompts. */
#include "generate/generate.h"

typedef struct {
    const EngineSetup *g;
    const Prompt *prompt;
    int64_t prompts, next;
    const Sampling *sampling;
    void (*emit)(void *context, int64_t prompt, int32_t id);
} PromptSource;

static RequestAnswer next(void *context, bool idle, Request *request)
{
    PromptSource *s = context;
    (void)idle;
    for (; s->next < s->prompts && s->prompt[s->next].most < 1; s->next++)
        s->emit(s->g->context, s->next, GENERATED_END);
    if (s->next == s->prompts) return REQUEST_CLOSED;
    const Prompt *p = &s->prompt[s->next];
    *request = (Request){ .number = s->next, .stream = (uint64_t)s->next, .id = p->id, .count = p->count,
                          .most = p->most, .sampling = *s->sampling, .alternatives = -1 };
    s->next++;
    return REQUEST_GIVEN;
}

static bool token(void *context, int64_t number, const GeneratedToken *made)
{
    const PromptSource *s = context;
    s->emit(s->g->context, number, made->id);
    return true;
}

static void ended(void *context, int64_t number, GenerationEnd reason)
{
    const PromptSource *s = context;
    CHECK(reason != END_TOO_LONG, "a prompt of %lld tokens is longer than the engine's cache",
          (long long)s->prompt[number].count);
    s->emit(s->g->context, number, GENERATED_END);
}

void generate(const EngineSetup *setup, const Prompt *prompt, int64_t prompts, const Sampling *sampling,
              void (*emit)(void *context, int64_t prompt, int32_t id))
{
    PromptSource source = { setup, prompt, prompts, 0, sampling, emit };
    Engine *engine = engine_open(setup);
    engine_run(engine, &(RequestSource){ .next = next, .token = token, .ended = ended,   /* <-> all axes */
                                         .context = &source });
    engine_close(engine);
}
