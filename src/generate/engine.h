#ifndef GENERATE_ENGINE_H
#define GENERATE_ENGINE_H
/* The engine: continues the texts of many requests at once, token by token, under every layout (continuous
 * batching: Orca, Yu et al. 2022; a key-value cache in pages: vLLM, Kwon et al. 2023, arXiv 2309.06180).
 *
 * Rank 0 takes requests from a RequestSource and plans each forward: new positions of prompts, in chunks, or
 * one position of each text that is being continued. A request begins when there are pages for its prompt and
 * for all tokens that it may get, so the engine preempts nothing. Its caller can: it cancels the request, and
 * gives it again later with the tokens that it has (`generated`), whose keys and values are computed again.
 *
 * A token depends on the weights, the prompt, (seed, stream) and its position alone, never on the requests
 * that run beside it: a chunk of a prompt ends at a multiple of `rows` of EngineSetup whatever else runs, and
 * the rows of a forward do not depend on each other to the bit.
 *
 * How a token is drawn, in this order (that of Hugging Face transformers):
 *     x   logits of the model, from which the log-probabilities are
 *     x = x / r where x > 0, else x r, of ids in prompt or text; r = repetition_penalty (CTRL, Keskar et al.
 *         2019, arXiv 1909.05858)
 *     x = x - presence_penalty - n frequency_penalty, of ids that the text has n > 0 times
 *     p = softmax(x / temperature)                       temperature 0: the id with the largest x instead
 *     the top_k most probable; of these, with their probabilities divided by their sum, the fewest most
 *     probable whose sum is at least top_p (nucleus sampling, Holtzman et al. 2019, arXiv 1904.09751); of
 *     these those with at least min_p times the largest probability (Nguyen et al. 2024, arXiv 2407.01082)
 *     one id by these probabilities and a uniform random number
 *
 * Beam search (beams > 0) is that of fairseq and transformers: the score of a text is the sum of its tokens'
 * log-probabilities, that of the end included, divided by (tokens)^length_penalty. Of the 2 beams likeliest
 * continuations of all beams those that end the text are finished if they are among the first `beams`, and
 * the first `beams` others continue. The search ends when `beams` texts are finished (early stopping). When
 * all have their `most` tokens those that continue count as finished with the score that they have, as in
 * transformers; fairseq would add the end to each. The text with the best score is the answer. */
#include "parallel/pipeline.h"

/* 0 turns off: top_p, min_p, top_k, presence_penalty, frequency_penalty and repetition_penalty. So do 1 of
 * top_p and repetition_penalty, and -1 of top_k. Ranges: base/generation/sampling_parameters.def */
typedef struct {
    double   temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t  top_k;
    uint64_t seed;
} Sampling;

enum { ALTERNATIVES_MOST = 64, BEAMS_MOST = ALTERNATIVES_MOST / 2 };

typedef struct {
    int64_t  number;               /* names the request in calls below */
    /* random numbers depend on (seed, stream, number of tokens drawn before) alone */
    uint64_t stream;
    const int32_t *id;             /* [count] the prompt, at least one; the caller's until the request ends */
    int64_t  count, most;          /* most: new tokens; 0: the prompt alone is computed */
    /* [generated_count] of the new tokens those that the request has given out before it was preempted: the
     * text continues behind them as it would have, to the bit. None of beam search, nor where the prompt is
     * scored. The caller's until `token` is called */
    const int32_t *generated;
    int64_t  generated_count;
    Sampling sampling;
    /* of each token, the log-probabilities of so many likeliest ids, up to ALTERNATIVES_MOST; -1: none, not
     * even its own */
    int      alternatives;
    /* prompt_token brings the tokens of the prompt as well: without beams, by an engine that scores
     * prompts */
    bool     scores_prompt;
    int      beams;                /* up to BEAMS_MOST, without sampling; 0: no beam search */
    double   length_penalty;
} Request;

typedef struct {
    int32_t id;
    float   logprob;                                       /* 0 where none was asked for */
    int     alternatives;                                  /* likeliest first; valid during the call */
    const int32_t *alternative_id;
    const float   *alternative_logprob;
} GeneratedToken;

typedef enum { REQUEST_NONE, REQUEST_GIVEN, REQUEST_CLOSED } RequestAnswer;

/* Why a text ended: the id that ends it was drawn, which is not given out; it has its `most` tokens; `token`
 * said so; `wanted` said so; its logits were not finite; it can never run, being longer than `capacity` or
 * of more beams than `sequences`. */
typedef enum { END_OF_TEXT, END_LENGTH, END_STOPPED, END_CANCELLED, END_NOT_FINITE,
               END_TOO_LONG } GenerationEnd;

/* Pages in use and pages in all, of all data ranks; texts that run, and that could; tokens of prompts that
 * were computed since the engine runs. Known on rank 0. */
typedef struct { int64_t pages_used, pages, running, places, prompt_tokens; } EngineUse;

/* Called on rank 0 alone, between two forwards, by the thread that runs the engine. */
typedef struct {
    /* What is in use, before each forward and before what follows is asked; may be NULL */
    void (*use)(void *context, EngineUse use);
    /* The next request. Asked when one could begin. idle: nothing runs; it may then wait, at most a second
     * at a time, since the other ranks wait too. REQUEST_CLOSED: there will be none; the engine returns when
     * all have ended. */
    RequestAnswer (*next)(void *context, bool idle, Request *request);
    /* false ends the request (stop words are the caller's, on text). Of beam search all tokens of the answer
     * come when it has ended. */
    bool (*token)(void *context, int64_t number, const GeneratedToken *token);
    /* Of a request that scores its prompt: id `position` of it, from 1 on, in order, before its tokens */
    void (*prompt_token)(void *context, int64_t number, int64_t position, const GeneratedToken *token);
    /* false: cancelled. Asked before each forward; NULL: always true */
    bool (*wanted)(void *context, int64_t number);
    /* Of each request once, in any order. */
    void (*ended)(void *context, int64_t number, GenerationEnd reason);
    /* Of beam search, before its tokens: the score of the answer; may be NULL */
    void (*scored)(void *context, int64_t number, double score);
    void *context;
} RequestSource;

/* What of a rank an engine runs on. */
typedef struct {
    /* Its slots hold micro-batches of at least `rows` positions, times cp. */
    StageExecutor  *executor;
    Pipeline       *pipeline;
    const Schedule *schedule;                      /* FORWARD, of the most micro-batches of a forward */
    Comm           *world, *tp, *cp, *pp, *data;   /* data: dp x cp */
    /* Caches, logits and ids are pushed on it. The caller resets it after engine_close. */
    Arena          *arena;
    int64_t         rows;                          /* positions of a micro-batch and a chunk */
    int64_t         sequences;                     /* texts of a data rank that run at once, at most */
    int64_t         capacity;                      /* positions of a prompt with its new tokens, at most */
    /* weights of 8 bits are made from those that the executor has, and used instead, in blocks and head:
     * of weights that ZeRO does not shard */
    bool            int8;
    int64_t         page;                          /* positions of a page; 0: PAGE_POSITIONS */
    int64_t         pages;                         /* of each rank; 0: all that `sequences` can need */
    int32_t         ids;                           /* ids are drawn from 0 .. ids - 1; 0: from all */
    int32_t         end;                           /* the id that ends a text; -1: none */
    bool            scores_prompts;                /* takes such requests, and memory for their logits */
    /* Logits that are not finite end a text, and are no CHECK: the steps of a training run continue. */
    bool            not_finite_ends;
    /* Called on the ranks of the last stage with the logits [vocabulary] that the next token of a request is
     * drawn from, `generated` tokens after its prompt; NULL: none. */
    void          (*see_logits)(void *context, int64_t number, int64_t generated,
                                 const double *logits);
    void           *context;
} EngineSetup;

typedef struct Engine Engine;
/* Positions of a page of the key-value cache, which paged_attention_forward suits. */
enum { PAGE_POSITIONS = 96 };

/* Collective, like all that follows. Memory that is refused is a CHECK. */
Engine   *engine_open (const EngineSetup *setup);
/* Runs until `source`, which is NULL on other ranks than 0, has closed and all its requests have ended. In a
 * dry run: one forward of each kind, of the most rows that there can be. <-> tp, cp, pp, data, world */
void      engine_run  (Engine *engine, const RequestSource *source);
void      engine_close(Engine *engine);                              /* NULL is allowed */

/* The most positions of a chunk of a prompt. Each forward of more than a few rows packs all weights, so
 * longer chunks are faster; but texts that run beside them wait. */
enum { CHUNK_LATENCY = 256, CHUNK_THROUGHPUT = 1024 };
/* Positions of a micro-batch that suit `widest`, the most positions of a prompt, `chunk` and `sequences`
 * texts on a data rank: what `rows` of EngineSetup, and so the executor's slots, should be. */
int64_t   engine_rows(int64_t widest, int64_t chunk, int64_t sequences, int sharded);
#endif
