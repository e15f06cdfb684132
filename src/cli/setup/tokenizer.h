#ifndef CLI_SETUP_TOKENIZER_H
#define CLI_SETUP_TOKENIZER_H
/* What a tokenizer adds to the options. Private to cli/. */
#include "conf/conf.h"
#include "text/tokenizer.h"

/* What a run takes from its tokenizer. */
typedef struct { int32_t vocabulary, eod; char fingerprint[TOKENIZER_FINGERPRINT]; } TokenizerFacts;
Status setup_tokenizer_facts(TokenizerFacts *facts, const char *name);
/* The size of the vocabulary, where nobody gave another; a smaller one is refused, and so is a tokenizer that
 * is not the checkpoint's. */
Status setup_take_tokenizer(Options *o);
/* Whether a run has made tokens (--mock-data) and names no tokenizer: its vocabulary is --vocab-size. */
bool   setup_without_tokenizer(const Options *o);

/* train and config: these have a model of their own, other commands take a checkpoint's. */
static inline bool setup_trains(const Options *o) { return o->command & FOR_CONFIG; }
#endif
