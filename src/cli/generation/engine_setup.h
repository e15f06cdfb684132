#ifndef CLI_GENERATION_ENGINE_SETUP_H
#define CLI_GENERATION_ENGINE_SETUP_H
/* An engine from options, for commands that generate: generation_fit on the configuration before ranks start,
 * then generation_run on each rank. */
#include "conf/conf.h"
#include "generate/engine.h"
#include "text/tokenizer.h"
#include "train/trainer.h"

/* widest: positions of the longest prompt. chunk: of a prompt in a forward, at most. capacity: of a prompt
 * with its new tokens, at most. sequences: that a data rank continues at once. pages: of its cache; 0: what
 * so many texts of that length can take. int8: weights of 8 bits, which generation_fit sets */
typedef struct { int64_t widest, chunk, capacity, sequences, pages; bool int8; } GenerationSize;

/* Sets sizes of micro-batches in the configuration. */
void   generation_fit(TrainConfig *config, const Options *o, GenerationSize *size);

/* What a command does with an engine on one rank. setup: changes what the command wants of an engine that is
 * about to be opened, once for the dry run and once for the real one; NULL: nothing. before: what can
 * fail once memory is taken and before the weights are read, on rank 0 alone; NULL: nothing. work: with the
 * engine, collective. */
typedef struct {
    const TrainConfig    *config;
    const GenerationSize *size;
    const Tokenizer      *tokenizer;
    void   (*setup) (void *context, EngineSetup *setup);
    Status (*before)(void *context, Trainer *t);
    Status (*work)  (void *context, Trainer *t, Engine *engine);
    void    *context;
} GenerationRun;

/* Opens a trainer without optimizer, with memory that a dry run of the engine has counted, and the weights of
 * --load; opens the engine; works. Collective. */
Status generation_run(Transport *transport, const GenerationRun *run);
#endif
