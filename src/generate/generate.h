#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H
/* Prompts that are all known before, continued by an engine. */
#include "generate/engine.h"

/* id: [count], at least one, the caller's; most: new tokens, 0 or more */
typedef struct { const int32_t *id; int64_t count, most; } Prompt;

enum { GENERATED_END = -1 };

/* Continues each prompt, of which all ranks give the same, until `end` of the setup or until it has its
 * `most` new tokens; prompt i takes random numbers from stream i. On rank 0 emit(setup->context, ..) gets
 * each new id of each prompt when it is drawn, and GENERATED_END after the last one. Collective. In a dry
 * run: what an engine takes. <-> tp, cp, pp, data, world */
void generate(const EngineSetup *setup, const Prompt *prompt, int64_t prompts, const Sampling *sampling,
              void (*emit)(void *context, int64_t prompt, int32_t id));
#endif
