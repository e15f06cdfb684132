/* The speed of elementwise updates beside that of memory:
 *
 *     bench_updates [THREADS [RULE...]]
 *
 * The tensors are those of GPT-2 124M in their parameter blocks, as one rank trains it: 196 of them, 122 of which are
 * vectors. States are fp32; parameters are fp32 weights, or bf16 copies of them, which the update rounds.
 * Counted are the bytes that a rule must read and write, each once; a line that is written and not read first, as that of a
 * bf16 parameter is, costs the machine more than is counted. The speed of memory is that of a = a + s b by the same threads over
 * larger arrays than caches hold: STREAM's triad with its output in the place of an input, so that each byte that moves is
 * counted (STREAM counts 12 of 16, which makes it slower).
 *
 * Other work on the machine seldom leaves more than a few milliseconds alone. So an update goes in parts of at most 4 million
 * elements, and each part of a matrix is followed by a part of the triad. Printed are, of 20 updates: the least times, those of tensors
 * of the same size added up, as on a machine without other work; their share of the fastest part of the triad; and the median of all
 * ratios of a part of a matrix and the triad after it, which says most on a machine with other work. */
#include "../measure.h"
#include <math.h>
#include "base/clones.h"
#include "optim/optimizer.h"
#include "tensor/ops.h"

enum { ESTIMATE = 1, UPDATES = 20 };
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
typedef struct { float *a, *b; int64_t at; } Triad;

static CLONES void triad_elements(void *context, int64_t begin, int64_t end)
{
    const Triad *t = context;
    for (int64_t i = t->at + begin; i < t->at + end; i += 16) *(Lanes *)(t->a + i) += 0.5f * *(const Lanes *)(t->b + i);
}

/* Bytes a second of the next part. */
enum { PART_ELEMENTS = 4 << 20 };
static double triad(Team *team, Triad *t)
{
    Seconds begun = now();
    team_for(team, PART_ELEMENTS, TRIAD_CHUNK, triad_elements, t);
    double took = since(begun).wall;
    t->at = (t->at + PART_ELEMENTS) % TRIAD_FLOATS;
    return 12.0 * PART_ELEMENTS / took;
}

/* ---- a model's pieces ---- */

enum { PIECES = 256, MATRIX = 500000 };              /* elements of a part that is compared with the triad */
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

/* An update, with a ratio of bytes a second for each matrix, of `bytes` an element; returns how many. */
static int update(double *ratio, double *memory, Queue *q, const Rule *rule, Model *m, Tensor tokens_1, Triad *t, double bytes)
{
    int ratios = 0;
    for (int i = 0; i < m->pieces; i++) {
        const OptimizerPiece *p = &m->piece[i];
        Seconds begun = now();
        if (rule->what == ESTIMATE) p->rule->estimate(q, &rule->settings, p, tokens_1);
        else p->rule->begin(q, &rule->settings, p);
        double took = since(begun).wall;
        if (took < m->least[i]) m->least[i] = took;
        if (p->count < MATRIX) continue;
        double speed = triad(q->team, t);
        *memory = fmax(*memory, speed);
        ratio[ratios++] = bytes * (double)p->count / took / speed;
    }
    return ratios;
}

/* Of all pieces of so many elements. */
static double least_of(const Model *m, int64_t elements)
{
    double least = INFINITY;
    for (int i = 0; i < m->pieces; i++)
        if (m->piece[i].count == elements) least = fmin(least, m->least[i]);
    return least;
}

static void measure(Queue *q, Arena *arena, Triad *t, const Rule *rule, bool narrow)
{
    size_t mark = arena_mark(arena);
    static Model  m;
    static double ratio[PIECES * UPDATES];
    Tensor tokens_1 = tensor_new(arena, "tokens", F64, 1);
    *(double *)tokens_1.data = 1024;
    model_make(&m, arena, rule, narrow);
    bool   written = rule->what == 0 && tensor_present(m.piece[0].param) && strncmp(rule->name, "lamb", 4) != 0;
    double bytes = 4 * rule->floats + (!written ? 0 : narrow ? 2 : 4), memory = 0, least = 0;
    int    ratios = 0;
    update(ratio, &memory, q, rule, &m, tokens_1, t, bytes);                      /* pages and frequency */
    for (int i = 0; i < UPDATES; i++) ratios += update(ratio + ratios, &memory, q, rule, &m, tokens_1, t, bytes);
    for (int i = 0; i < m.pieces; i++) least += least_of(&m, m.piece[i].count);
    double speed = bytes * (double)m.elements / least;
    printf("%-19s %-4s %5.0f  %7.2f %8.2f %8.2f   %5.1f    %5.1f\n", rule->name, narrow ? "bf16" : "fp32", bytes, 1e3 * least, speed / 1e9,
           memory / 1e9, 100 * speed / memory, 100 * median(ratio, ratios));
    fflush(stdout);
    arena_reset(arena, mark);
}

int main(int count, char **word)
{
    int threads = count > 1 ? atoi(word[1]) : team_cores();
    StepState state = { .lr = 1e-3, .decoupled_lr = 1e-3, .weight_decay = 0.1, .factor = 1, .updates = 10, .average_share = 0.1 };
    Queue q;
    Arena arena;
    Triad t = { memory_new(4 * TRIAD_FLOATS), memory_new(4 * TRIAD_FLOATS), 0 };
    memset(t.a, 0, 4 * TRIAD_FLOATS), memset(t.b, 0, 4 * TRIAD_FLOATS);
    if (threads < 1) {
        fprintf(stderr, "usage: bench_updates [THREADS [RULE...]]\n");
        return 2;
    }
    if (queue_open(&q, "cpu", threads, &state) != OK) return 3;
    if (arena_open_on(&arena, "all", (size_t)22 * 130000000, NULL, q.team) != OK) return 3;
    printf("%d threads; bytes of an element, ms of an update, GB/s; shares of memory in %%\n", threads);
    printf("rule                param bytes     ms     GB/s   memory   share  median of ratios\n");
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
