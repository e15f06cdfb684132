#ifndef TESTS_SERVE_FAKE_ENGINE_H
#define TESTS_SERVE_FAKE_ENGINE_H
/* In the place of an engine: continues prompts by a fixed text, from a place in it that prompt, seed and choice
 * decide, byte by byte, so that characters are spread over tokens. A prompt that ends with '!' ends itself
 * after ten tokens. Token i of a prompt that is scored has the log-probability -(i mod 8) / 8. */
#include "generate/engine.h"

/* rows: texts at once; step_us: of a step, which makes a token of each of them */
typedef struct { int rows; long step_us; } FakeEngine;

/* Returns after REQUEST_CLOSED. */
void fake_engine_run(const FakeEngine *engine, const RequestSource *source);
#endif
