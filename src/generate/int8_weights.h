#ifndef GENERATE_INT8_WEIGHTS_H
#define GENERATE_INT8_WEIGHTS_H
/* Private to this directory: the matrices of this rank's units in 8 bits. */
#include "generate/engine.h"

/* Pushes codes and scales on the setup's arena, and sets `int8` of the executor's context. */
void int8_weights_open (Int8Weights *weights, const EngineSetup *g);
void int8_weights_close(Int8Weights *weights, const EngineSetup *g);
#endif
