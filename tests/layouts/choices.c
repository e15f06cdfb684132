/* Stands between a layer of experts and its router (the program is linked with --wrap). */
#include "layouts/choices.h"
#include <math.h>
#include <sys/mman.h>
#include "model/dispatch.h"

static _Thread_local Choices *following;
static _Thread_local int step;
static _Thread_local ChoiceGap gap;

Choices *choices_new(void)
{
    Choices *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(c != MAP_FAILED, "no memory");
    return c;
}

void choices_free(Choices *choices) { munmap(choices, sizeof *choices); }

void choices_written(Choices *choices) { choices->known = true; }

void choices_follow(Choices *choices, const Trainer *trainer)
{
    following = choices;
    step = trainer ? (int)trainer->run.step : 0;
    CHECK(step <= STEPS, "step %d", step);
}

ChoiceGap choices_gap(void) { return gap; }

static bool among(const uint8_t *taken, int64_t K, int64_t e)
{
    for (int64_t k = 0; k < K; k++) if (taken[k] == e + 1) return true;
    return false;
}

/* What the router compares: logits, or of sigmoids their scores and biases; of groups of experts, sums of them. */
static double compared(const ExecContext *ctx, const MoeSave *save, int64_t layer, int64_t i, int64_t e)
{
    const MoeState *moe = ctx->moe;
    int64_t E = save->logits_tE.dim[1];
    double x = (double)((const float *)save->logits_tE.data)[i * E + e];
    if (ctx->config->moe.rule.score == ROUTE_SIGMOID) x = 1 / (1 + exp(-x));
    return x + (tensor_present(moe->bias_nE) ? (double)((const float *)moe->bias_nE.data)[moe->row[layer] * E + e] : 0);
}

/* How much more the experts that this run would take have in sum than those that one rank took */
static double gap_of(const ExecContext *ctx, const MoeSave *save, int64_t layer, int64_t i, const uint8_t *taken)
{
    int64_t K = save->expert_tK.dim[1];
    double sum = 0;
    for (int64_t k = 0; k < K; k++)
        sum += compared(ctx, save, layer, i, ((const int32_t *)save->expert_tK.data)[i * K + k]) - compared(ctx, save, layer, i, taken[k] - 1);
    return fabs(sum);
}

/* The experts that one rank took of token i, and their weights, by a bias that none of the others can reach. */
static void take(const ExecContext *ctx, MoeSave *save, int64_t i, const uint8_t *taken)
{
    int64_t E = save->logits_tE.dim[1], K = save->expert_tK.dim[1];
    float bias[ORDER_EXPERTS] = { 0 };
    CHECK(E <= ORDER_EXPERTS, "%lld experts", (long long)E);
    for (int64_t k = 0; k < K; k++) bias[taken[k] - 1] = 1e6f;
    route_forward(ctx->queue, (RouteForward){ .weight_TK = tensor_slice(save->weight_tK, 0, i, 1), .expert_TK = tensor_slice(save->expert_tK, 0, i, 1),
        .logits_TE = tensor_slice(save->logits_tE, 0, i, 1), .bias_E = tensor_at(bias, F32, (const int64_t[]){ E }, 1), .rule = ctx->config->moe.rule });
}

static bool same(const int32_t *expert, const uint8_t *taken, int64_t K)
{
    for (int64_t k = 0; k < K; k++) if (!among(taken, K, expert[k])) return false;
    return true;
}

void __real_router_forward(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w, MoeSave *save, Tensor n_tC);
void __wrap_router_forward(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w, MoeSave *save, Tensor n_tC);

/* Token i held is row first + i of the micro-batch. In double nothing is near a tie. */
void __wrap_router_forward(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w, MoeSave *save, Tensor n_tC)
{
    int64_t K = z->K, first = ctx->tp.sequence_parallel ? comm_rank(ctx->tp.comm) * z->t : 0;
    const int32_t *index = ctx->batch->dropout_index_i.data;
    __real_router_forward(ctx, layer, z, w, save, n_tC);
    if (!following || save->logits_tE.dtype != F32) return;
    CHECK(layer < CHOICE_LAYERS && K <= CHOICE_MOST, "layer %lld, %lld experts of a token", (long long)layer, (long long)K);
    for (int64_t i = 0; i < z->t; i++) {
        const int32_t *expert = (const int32_t *)save->expert_tK.data + i * K;
        CHECK(index[first + i] < CHOICE_TOKENS, "token %d", (int)index[first + i]);
        uint8_t *taken = following->expert[step][layer][index[first + i]];
        if (!following->known) for (int64_t k = 0; k < K; k++) taken[k] = (uint8_t)(expert[k] + 1);
        CHECK(taken[0], "token %d of layer %lld has no experts on one rank", (int)index[first + i], (long long)layer);
        if (!same(expert, taken, K)) {
            double off = gap_of(ctx, save, layer, i, taken);
            gap.replaced++;
            if (!(off <= gap.largest[step > 0])) gap.largest[step > 0] = off;
            take(ctx, save, i, taken);
        }
    }
}
