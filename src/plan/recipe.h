#ifndef PLAN_RECIPE_H
#define PLAN_RECIPE_H
/* What `jotun speedrun` trains: vocabulary, shape, batch, learning rate, regularization and horizon, from the
 * text, the budget and the measured speed. Pure functions; docs/howto/speedrun.md has their sources. */
#include <stdbool.h>
#include <stdint.h>

enum { RECIPE_DEPTH_MOST = 64 };

/* Exactly one of depth, flops and seconds is above 0. */
typedef struct {
    double  seconds;            /* of training that are left */
    double  flops;              /* of training */
    int     depth;
    int64_t tokens;             /* distinct tokens of the training text, ends of documents included */
    int64_t ids;                /* of the tokenizer */
} RecipeAsk;

typedef struct {
    int     depth, hidden, heads, ffn, sequence;
    int     batch, micro;       /* samples of a step, and of what is computed at once */
    double  parameters;         /* of the matrices; the embedding is the head's too (tied) */
    double  flops_per_token;    /* forward and backward */
    double  lr, dropout, weight_decay;
    int64_t steps, warmup;
    double  epochs;             /* passes over the text */
    double  loss;               /* recipe_loss of this */
} RecipeChoice;

/* Ids of a tokenizer for so many bytes of text; 0: bytes as they are. */
int64_t recipe_vocabulary(int64_t bytes);
/* The most bytes of text that a run can use: what the smallest model could read once. cores: of this
 * machine. */
int64_t recipe_bytes_most(const RecipeAsk *ask, int cores);
/* Expected loss in nats a token, of which the differences between models count: the law of Muennighoff et al.
 * (arXiv 2305.16264), in which tokens that are seen again are worth less each time. */
double  recipe_loss(double parameters, double seen, double distinct);
/* The shape and the batch of a depth. */
void    recipe_shape(RecipeChoice *r, const RecipeAsk *ask, int depth);
/* Steps and schedule of a shape. step_seconds: measured; 0 where ask has no seconds. False: the budget is
 * less than RECIPE_STEPS_LEAST steps. */
enum { RECIPE_STEPS_LEAST = 10 };
bool    recipe_horizon(RecipeChoice *r, const RecipeAsk *ask, double step_seconds);
#endif
