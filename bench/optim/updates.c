/* The speed of elementwise updates beside that of memory:
 *
 *     bench_updates [THREADS [RULE...]]
 *
 * The tensors are those of GPT-2 124M in their parameter blocks, as one rank trains it: 148 of them, 98 of which are
 * vectors. States are fp32; parameters are fp32 weights, or bf16 copies of them, which the update rounds.
 * Counted are the bytes that a rule must read and write, each once; a line that is written and not read first, as that of a
 * bf16 parameter is, costs the machine more than is counted. Memory is measured between updates by the same threads over larger
 * arrays than caches hold, by a = a + s b, where each byte that moves is counted, and by STREAM's triad a = b + s c, where lines of
 * a are read as well and not counted; the share is of the faster one.
 *
 * Time is taken of each tensor, of 4 million elements at most, and of as many bytes of the triads, since other work on the
 * machine seldom leaves longer times alone. Like STREAM's, the first share is of the least times of 20 updates, the least of
 * each tensor added up; the second one is the median of five ratios, each of four updates and the triads before and after. */
#include "../measure.h"
#include <math.h>
#include "base/clones.h"
#include "optim/optimizer.h"
#include "tensor/ops.h"

enum { ESTIMATE = 1, UPDATES = 4 };      /* updates of a repetition */
/* floats, of fp32, that an element reads and writes without the parameter */
typedef struct { const char *name, *optimizer; OptimizerSettings settings; int floats, what; } Rule;
static const Rule rules[] = {
    { "adamw",             "adam",  { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 }, 7, 0 },
    { "adam with L2",      "adam",  { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .coupled = true }, 7, 0 },
    { "sgd",               "sgd",   { .momentum = 0.9 }, 5, 0 },
    { "lion",              "lion",  { .lion_beta1 = 0.9, .lion_beta2 = 0.99 }, 5, 0 },
    { "adopt",             "adopt", { .beta1 = 0.9, .beta2 = 0.9999, .epsilon = 1e-6 }, 7, 0 },
    { "adamwschedulefree", "adamwschedulefree", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 }, 7, 0 },
    { "sgdschedulefree",   "sgdschedulefree",   { .momentum = 0.9 }, 5, 0 },
    { "sophiag",           "sophiag", { .beta1 = 0.965, .beta2 = 0.99, .sophia_rho = 0.04 }, 6, 0 },
    { "sophiag's estimate", "sophiag", { .beta1 = 0.965, .beta2 = 0.99, .sophia_rho = 0.04 }, 3, ESTIMATE },
    { "lamb, first pass",  "lamb",  { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6 }, 7, 0 },
};
enum { RULES = sizeof rules / sizeof *rules };
static const ModelConfig gpt2 = { .layers = 12, .hidden = 768, .ffn = 3072, .heads = 12, .groups = 12, .head_dim = 64, .vocabulary = 50257,
    .positions = 1024, .sequence = 1024, .norm = NORM_LAYER, .position = POSITION_LEARNED, .epsilon = 1e-5, .init_std = 0.02,
    .qkv_bias = true, .out_bias = true, .mlp_bias = true, .tied = true };

/* ---- memory alone ---- */

enum { TRIAD_FLOATS = 16 << 20, TRIAD_CHUNK = 16384 };
typedef float Lanes __attribute__((vector_size(64), aligned(64), may_alias));
typedef struct { float *a, *b, *c; } Triad;

static CLONES void triad_elements(void *context, int64_t begin, int64_t end)
{
    const Triad *t = context;
    for (int64_t i = begin; i < end; i += 16) *(Lanes *)(t->a + i) = *(const Lanes *)(t->b + i) + 0.5f * *(const Lanes *)(t->c + i);
}

/* Bytes a second over one pass, and at best over PART_ELEMENTS, of the faster one. */
enum { PART_ELEMENTS = 4 << 20 };
typedef struct { double typical, best; } Speed;
static Speed triad(Team *team, const Triad *t)
{
    Speed speed = { 0, 0 };
    for (int kind = 0; kind < 2; kind++) {
        double all = 0;
        for (int64_t at = 0; at < TRIAD_FLOATS; at += PART_ELEMENTS) {
            Triad part = { t->a + at, (kind ? t->b : t->a) + at, t->c + at };
            Seconds begun = now();
            team_for(team, PART_ELEMENTS, TRIAD_CHUNK, triad_elements, &part);
            double took = since(begun).wall;
            all += took;
            if (12.0 * PART_ELEMENTS / took > speed.best) speed.best = 12.0 * PART_ELEMENTS / took;
        }
        if (12.0 * TRIAD_FLOATS / all > speed.typical) speed.typical = 12.0 * TRIAD_FLOATS / all;
    }
    return speed;
}

/* ---- a model's pieces ---- */

enum { PIECES = 256 };
typedef struct { OptimizerPiece piece[PIECES]; double least[PIECES]; int pieces; int64_t elements; } Model;

static Tensor memory_of(Arena *arena, Dtype type, int64_t n)
{
    Tensor x = tensor_new(arena, "numbers", type, n);
    if (type != F32) return x;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)i * 2654435761u;
        ((float *)x.data)[i] = (float)(1 + (bits >> 9)) * 0x1p-24f;          /* no state is negative or 0 */
    }
    return x;
}

static void model_make(Model *m, Arena *arena, const Rule *rule, bool narrow)
{
    const Optimizer *o = optimizer_named(rule->optimizer);
    m->pieces = 0, m->elements = 0;
    for (int64_t b = 0; b < params_blocks(&gpt2); b++) {
        ParamBlock block;
        params_block(&block, &gpt2, PARAMS_DENSE, b, NULL);
        if (block.params == 0) continue;
        Tensor w = memory_of(arena, F32, block.count), g = memory_of(arena, F32, block.count), param = { 0 }, state[2] = { { 0 } };
        if (narrow || optimizer_averages(o)) param = memory_of(arena, narrow ? BF16 : F32, block.count);
        for (int s = 0; s < o->matrices->states; s++) state[s] = memory_of(arena, F32, block.count);
        for (int i = 0; i < block.params; i++) {
            const Param *p = &block.param[i];
            int64_t all = param_elements(p);
            for (int64_t first = 0, n; first < all; first += n) {
                n = all - first < PART_ELEMENTS ? all - first : PART_ELEMENTS;
                m->least[m->pieces] = INFINITY;
                OptimizerPiece *piece = &m->piece[m->pieces++];
                *piece = (OptimizerPiece){ .rule = optimizer_rule(o, p), .w = tensor_flat(w, p->at + first, n),
                    .g = tensor_flat(g, p->at + first, n), .decayed = p->decay, .count = n, .counted = n };
                if (tensor_present(param)) piece->param = tensor_flat(param, p->at + first, n);
                for (int s = 0; s < o->matrices->states; s++) piece->state[s] = tensor_flat(state[s], p->at + first, n);
            }
            m->elements += all;
        }
    }
}

/* Seconds of an update. */
static double update(Queue *q, const Rule *rule, Model *m, Tensor tokens_1)
{
    double all = 0;
    for (int i = 0; i < m->pieces; i++) {
        const OptimizerPiece *p = &m->piece[i];
        Seconds begun = now();
        if (rule->what == ESTIMATE) p->rule->estimate(q, &rule->settings, p, tokens_1);
        else p->rule->begin(q, &rule->settings, p);
        double took = since(begun).wall;
        if (took < m->least[i]) m->least[i] = took;
        all += took;
    }
    return all;
}

static void measure(Queue *q, Arena *arena, const Triad *t, const Rule *rule, bool narrow)
{
    size_t mark = arena_mark(arena);
    static Model m;
    Tensor tokens_1 = tensor_new(arena, "tokens", F64, 1);
    *(double *)tokens_1.data = 1024;
    model_make(&m, arena, rule, narrow);
    double ratio[REPETITIONS], took[REPETITIONS], memory = 0, least = 0;
    bool   written = rule->what == 0 && tensor_present(m.piece[0].param) && strncmp(rule->name, "lamb", 4) != 0;
    double bytes = (double)m.elements * (4 * rule->floats + (!written ? 0 : narrow ? 2 : 4));
    update(q, rule, &m, tokens_1);                   /* pages and frequency */
    for (int i = 0; i < REPETITIONS; i++) {
        Speed before = triad(q->team, t);
        took[i] = 0;
        for (int k = 0; k < UPDATES; k++) took[i] += update(q, rule, &m, tokens_1) / UPDATES;
        Speed after = triad(q->team, t);
        ratio[i] = bytes / took[i] / ((before.typical + after.typical) / 2);
        memory = fmax(memory, fmax(before.best, after.best));
    }
    for (int i = 0; i < m.pieces; i++) least += m.least[i];
    printf("%-19s %-4s %5.0f %8.2f %8.2f %8.2f   %5.1f   %8.2f %5.1f\n", rule->name, narrow ? "bf16" : "fp32", bytes / (double)m.elements,
           1e3 * least, bytes / least / 1e9, memory / 1e9, 100 * bytes / least / memory, 1e3 * median(took), 100 * median(ratio));
    fflush(stdout);
    arena_reset(arena, mark);
}

int main(int count, char **word)
{
    int threads = count > 1 ? atoi(word[1]) : team_cores();
    StepState state = { .lr = 1e-3, .decoupled_lr = 1e-3, .weight_decay = 0.1, .factor = 1, .updates = 10, .average_share = 0.1 };
    Queue q;
    Arena arena;
    Triad t = { memory_new(4 * TRIAD_FLOATS), memory_new(4 * TRIAD_FLOATS), memory_new(4 * TRIAD_FLOATS) };
    memset(t.b, 0, 4 * TRIAD_FLOATS), memset(t.c, 0, 4 * TRIAD_FLOATS);
    if (threads < 1) {
        fprintf(stderr, "usage: bench_updates [THREADS [RULE...]]\n");
        return 2;
    }
    if (queue_open(&q, "cpu", threads, &state) != OK) return 3;
    if (arena_open_for(&arena, "all", (size_t)22 * 130000000, q.team) != OK) return 3;
    printf("%d threads; bytes of an element, ms of an update, GB/s; shares of memory in %%\n", threads);
    printf("                               least times:                      medians:\n");
    printf("rule                param bytes     ms     GB/s   memory   share         ms share\n");
    for (int i = 0; i < RULES; i++) {
        bool wanted = count <= 2;
        for (int k = 2; k < count; k++) wanted |= strcmp(word[k], rules[i].name) == 0;
        for (int narrow = 0; wanted && narrow < 2; narrow++)
            if (!narrow || (rules[i].what == 0 && strncmp(rules[i].name, "lamb", 4) != 0)) measure(&q, &arena, &t, &rules[i], narrow);
    }
    arena_close(&arena);
    queue_close(&q);
    return 0;
}
