#ifndef GENERATE_SEQUENCE_H
#define GENERATE_SEQUENCE_H
/* Private to this directory. A slot is room for one text that runs; each data rank has `sequences` of them,
 * numbered from 0. Every rank knows the texts in the slots of all data ranks, and takes the same steps with
 * them, which rank 0 plans (plan.h). */
#include "base/integer.h"
#include "generate/engine.h"

typedef struct {
    bool     active;
    Request  request;              /* its ids are in `id` */
    int32_t *id;                   /* [count + most], owned: the prompt and what is known of the text */
    int64_t  length;               /* ids known */
} Sequence;

/* Positions [position, position + count) of a text in micro-batch `micro` of a forward. draws: logits are
 * wanted after so many of the last of them: the next token is drawn from those of the last position that is
 * known, and those of an earlier one score the id that follows it. */
typedef struct { int32_t data, slot, micro, draws; int64_t position, count; } Segment;

/* A forward, the same on all ranks. rows: of each micro-batch, with padding. results: the most tokens that a
 * data rank draws or scores in it. alternatives: the most that one of them is asked for, at least 0. */
typedef struct {
    bool     closed;
    int64_t  micros, rows, results, alternatives;
    Segment *segment;              /* [segments], those of a data rank by micro-batch */
    int64_t  segments, room;
} ForwardPlan;

/* What a token is on its way to rank 0: id, log-probability, and so many alternatives' ids and then their
 * log-probabilities. An id NOT_FINITE: the logits were not finite. */
enum { NOT_FINITE = -1, RESULT_ID = 0, RESULT_LOGPROB = 1, RESULT_FIRST = 2 };
static inline int64_t result_words(int64_t alternatives) { return RESULT_FIRST + 2 * alternatives; }

/* Logits that a forward has room for on a data rank. Scored prompts run in chunks of at most SCORED_ROWS
 * positions, so that their logits take little memory. */
enum { SCORED_ROWS = 32 };
static inline int64_t logits_room(const EngineSetup *g)
{
    return g->scores_prompts ? most_of(g->sequences, SCORED_ROWS) : g->sequences;
}

/* Rows that tp ranks can share under sequence parallelism: at least one and at least `rows`. */
static inline int64_t rows_shared(const EngineSetup *g, int64_t rows)
{
    int64_t unit = g->executor->ctx.tp.sequence_parallel ? comm_size(g->tp) : 1;
    return divide_up(most_of(rows, 1), unit) * unit;
}

/* Ranks of cp have the same rows. */
static inline int cp_ranks  (const EngineSetup *g) { return comm_size(g->cp); }
static inline int data_ranks(const EngineSetup *g) { return comm_size(g->data) / cp_ranks(g); }
static inline int data_rank (const EngineSetup *g) { return comm_rank(g->data) / cp_ranks(g); }
/* Positions of a text whose keys are in one page of each cp rank: rank r has the r-th `page` of them. */
static inline int64_t page_span(const EngineSetup *g) { return g->page * cp_ranks(g); }
#endif
