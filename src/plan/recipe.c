/* The rule of `jotun speedrun`: each number of it is named here once. */
#include "plan/recipe.h"

#include <math.h>

/* ---- chosen by single runs on one small text; what is known of each: docs/howto/speedrun.md ---- */
static const struct {
    int     width;              /* channels of a layer, as a multiple of the depth */
    int     head;               /* channels of a head */
    int     sequence;
    double  batch_tokens, batch_at;    /* tokens of a step where the horizon is so many tokens */
    double  lr, warmup;         /* warmup: its share of the steps */
    double  weight_decay, passes_few, weight_decay_many;   /* up to so many passes over the text, and above */
    double  dropout;            /* for each doubling of the passes above passes_few */
    double  epochs_most;        /* further passes over the text are worth nothing */
} rule = {
    .width = 64, .head = 64, .sequence = 256, .batch_tokens = 4096, .batch_at = 4e6,
    .lr = 4e-3, .warmup = 0.03, .weight_decay = 0.1, .passes_few = 4, .weight_decay_many = 4,
    .dropout = 0.08, .epochs_most = 40,
};
/* Power Lines (arXiv 2505.13738): the best batch grows with this power of the tokens of a run. */
static const double batch_power = 0.383;
/* Hoffmann et al. (arXiv 2203.15556): compute-optimal models see about so many tokens for each parameter. */
static const double tokens_per_parameter = 20;
/* Muennighoff et al. (arXiv 2305.16264), the fit on C4; tokens_decay is their R*_D. Their decay of parameters
 * is left out: it was fitted without dropout, and would keep models of little text far too small. */
static const struct {
    double entropy, a, b, power, tokens_decay;
} law = { 1.87, 521, 1488, 0.353, 15.387756 };

int64_t recipe_vocabulary(int64_t bytes)
{
    double ids = 2048 * sqrt((double)bytes / 1.2e6);
    if (ids < 512) return 0;
    double power = floor(log2(ids) + 0.5);
    return (int64_t)exp2(power < 15 ? power : 15);
}

static double parameters_of(int depth, int64_t ids)
{
    double hidden = (double)rule.width * depth;
    return 12.0 * depth * hidden * hidden + hidden * (double)ids;
}

int64_t recipe_bytes_most(const RecipeAsk *ask, int cores)
{
    const double flops_of_core = 2e11, bytes_of_token = 5;
    double smallest = parameters_of(1, 1024);
    double tokens = ask->depth ? 2 * tokens_per_parameter * parameters_of(ask->depth, 32768)
                  : (ask->flops > 0 ? ask->flops : ask->seconds * cores * flops_of_core) / (6 * smallest);
    double bytes = bytes_of_token * tokens;
    return bytes < 1e6 ? 1000000 : bytes < 1e15 ? (int64_t)bytes : (int64_t)1e15;
}

double recipe_loss(double parameters, double seen, double distinct)
{
    double again  = seen / distinct - 1;
    double tokens = again <= 0 ? seen
                               : distinct * (1 + law.tokens_decay * (1 - exp(-again / law.tokens_decay)));
    return law.entropy + law.a / pow(parameters, law.power) + law.b / pow(tokens, law.power);
}

static int at_least_one(double x) { return x < 1 ? 1 : (int)x; }

void recipe_shape(RecipeChoice *r, const RecipeAsk *ask, int depth)
{
    *r = (RecipeChoice){ .depth = depth, .hidden = rule.width * depth, .sequence = rule.sequence };
    r->heads = r->hidden / rule.head;
    /* SwiGLU has three matrices: 8/3 of the width have the parameters of 4 without a gate. */
    r->ffn = (8 * r->hidden / 3 + 63) / 64 * 64;
    /* A sample is shorter than the text that it is drawn from. */
    while (r->sequence > 8 && r->sequence * 8 > ask->tokens) r->sequence /= 2;
    r->parameters = 4.0 * r->depth * r->hidden * r->hidden + 3.0 * r->depth * r->hidden * r->ffn +
                    (double)r->hidden * (double)ask->ids;
    r->flops_per_token = 6 * r->parameters + 6.0 * r->depth * r->hidden * r->sequence;
    double horizon = fmin(tokens_per_parameter * r->parameters, rule.epochs_most * (double)ask->tokens);
    if (ask->flops > 0) horizon = fmin(horizon, ask->flops / r->flops_per_token);
    double tokens = rule.batch_tokens * pow(fmax(horizon / rule.batch_at, 1), batch_power);
    tokens   = fmin(tokens, fmax(r->sequence, (double)ask->tokens / 8));
    r->batch = (int)exp2(floor(log2(at_least_one(tokens / r->sequence))));
    r->micro = r->batch < 8 ? r->batch : 8;
}

bool recipe_horizon(RecipeChoice *r, const RecipeAsk *ask, double step_seconds)
{
    double step = (double)r->batch * r->sequence, distinct = (double)ask->tokens;
    double steps = ask->seconds > 0 ? ask->seconds / step_seconds
                 : ask->flops > 0   ? ask->flops / (r->flops_per_token * step)
                                    : tokens_per_parameter * r->parameters / step;
    double most  = fmax(rule.epochs_most * distinct / step, RECIPE_STEPS_LEAST);
    r->steps  = (int64_t)fmin(steps, most);
    r->warmup = (int64_t)fmax(1, rule.warmup * (double)r->steps);
    r->epochs = (double)r->steps * step / distinct;
    r->lr     = rule.lr;
    r->weight_decay = r->epochs > rule.passes_few ? rule.weight_decay_many : rule.weight_decay;
    r->dropout = fmin(rule.dropout * fmax(log2(r->epochs / rule.passes_few), 0), 0.3);
    r->dropout = floor(r->dropout * 100 + 0.5) / 100;
    r->loss = recipe_loss(r->parameters, (double)r->steps * step, distinct);
    return steps >= RECIPE_STEPS_LEAST;
}
