#ifndef CLI_GENERATION_ENGINE_SETUP_H
#define CLI_GENERATION_ENGINE_SETUP_H
/* An engine from options, for commands that generate: generation_fit on the configuration before ranks start,
 * then a trainer that is started with work of which engine_open is a part (trainer_start_work), and its
 * weights (generation_load). */
#include "conf/conf.h"
#include "generate/engine.h"
#include "train/trainer.h"

/* widest: positions of the longest prompt. capacity: of a prompt with its new tokens, at most. sequences:
 * that a data rank continues at once. pages: of its cache; 0: what so many texts of that length can take.
 * int8: weights of 8 bits */
typedef struct { int64_t widest, capacity, sequences, pages; bool int8; } GenerationSize;

/* Sets sizes of micro-batches in the configuration. */
void        generation_fit  (TrainConfig *config, const Options *o, const GenerationSize *size);
/* `ids` and `end` are those of the tokenizer. The caller may set `look` and `context`. */
EngineSetup generation_setup(Trainer *t, const GenerationSize *size, int32_t ids, int32_t end, Arena *arena);
/* The weights of --load. Collective. */
Status      generation_load (Trainer *t, const TrainConfig *config);
#endif
