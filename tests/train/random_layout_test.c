/* Layouts and models drawn from a printed seed, two steps in double with dropout, against one rank with
 * micro-batches of one: losses within 1e-12, gradient norms within 1e-11, arenas as dry runs said.
 *
 *     JOTUN_SEED=s JOTUN_CASES=n    another seed, more cases     JOTUN_CASE=i    case i of the seed alone */
#include "train/layouts.h"

enum { SEED = 23, CASES = 96, STEPS = 2, TRIES = 100000 };
typedef struct { TrainConfig config; Layout layout; } Case;

/* ---- drawing ---- */

typedef struct { uint64_t key, at; } Dice;

static int64_t dice(Dice *d, int64_t low, int64_t high)
{
    return low + (int64_t)(random_bits(d->key, d->at++) % (uint64_t)(high - low + 1));
}

static bool coin(Dice *d) { return dice(d, 0, 1) == 1; }

/* One of the axes after the other takes of the ranks that are left. */
static int draw_axis(Dice *d, int *left, int most)
{
    int size = (int)dice(d, 1, *left < most ? *left : most);
    *left /= size;
    return size;
}

static Layout draw_layout(Dice *d)
{
    Layout l = { .name = "", .chunks = 1, .zero = (int)dice(d, 0, 3) };
    l.tp = (int[]){ 1, 1, 1, 2, 2, 3, 4, 8 }[dice(d, 0, 7)];
    int left = RANKS_MAX / l.tp;
    l.pp       = draw_axis(d, &left, 4);
    l.cp       = draw_axis(d, &left, 4);
    l.ranks    = l.tp * l.pp * l.cp * draw_axis(d, &left, 4);
    l.sequence = l.tp > 1 && coin(d);
    l.schedule = (ScheduleKind)dice(d, 0, SCHEDULE_FORWARD - 1);
    if (l.schedule == SCHEDULE_INTERLEAVED) l.chunks = (int)dice(d, 1, 3);
    if (l.schedule == SCHEDULE_INTERLEAVED && coin(d)) l.group = l.pp + (int)dice(d, 0, 2);
    if (l.schedule == SCHEDULE_1F1B) l.extra = (int)dice(d, 0, 2);
    if (l.schedule == SCHEDULE_ZB_V) l.chunks = 2;
    return l;
}

/* Sizes as large as divisibility asks for and a little more; as a rule blocks and vocabulary do not
 * divide. */
static void draw_shape(Dice *d, TrainConfig *config, const Layout *l)
{
    ModelConfig *s = &config->model;
    s->groups     = l->tp * dice(d, 1, 2);
    s->heads      = s->groups * dice(d, 1, 2);
    s->head_dim   = 2 * dice(d, 1, 4);
    s->hidden     = dice(d, 5, 24);
    s->ffn        = l->tp * dice(d, 1, 8);
    s->layers     = l->pp * l->chunks + dice(d, 0, 2);
    s->sequence   = 2 * l->cp * dice(d, 1, 3);
    s->positions  = s->sequence + dice(d, 0, 2);
    s->norm       = coin(d) ? NORM_LAYER : NORM_RMS;
    s->position   = (PositionKind)dice(d, 0, 2);
    s->activation = (ActivationKind)dice(d, 0, 4);
    int64_t biases = dice(d, 0, 7);
    s->qkv_bias   = biases & 1;
    s->out_bias   = biases & 2;
    s->mlp_bias   = biases & 4;
    s->tied       = coin(d);
    s->qk_norm    = (QkNorm)(s->norm == NORM_RMS ? biases % 3 : 0);
    s->hidden_dropout    = coin(d) ? 0.1 : 0;
    s->attention_dropout = coin(d) ? 0.1 : 0;
}

static void draw_batch(Dice *d, TrainConfig *config, const Layout *l)
{
    bool few = coin(d);                          /* so few words that a tp rank may hold none */
    int  dp  = l->ranks / (l->tp * l->cp * l->pp);
    config->token_prefix  = scratch_path(few ? "few words" : "corpus");
    config->eod   = few ? 4 : 60;
    config->model.vocabulary = config->eod + 1 + dice(d, 0, 2);
    config->micro  = dice(d, 1, 2);
    int64_t whole = l->group ? l->group : l->pp;           /* a group, and maybe a last one that is not whole */
    int64_t last  = whole > l->pp && coin(d) ? dice(d, l->pp, whole - 1) : 0;
    int64_t grouped = whole * dice(d, 1, 2) + last;
    config->global = config->micro * dp * (l->schedule == SCHEDULE_INTERLEAVED ? grouped : dice(d, 1, 6));
    config->reset_positions = coin(d);
    config->reset_attention = coin(d);
    config->mask_eod        = coin(d);
    config->seed = (uint64_t)dice(d, 0, 1000);
}

/* Case i of a seed, whatever the number of cases. */
static Case case_draw(uint64_t seed, int i)
{
    Case c = { .config = tiny_config(MODEL_GPT, "ref", NULL) };
    Dice d = { .key = random_mix(random_key(seed, "layouts"), (uint64_t)i) };
    for (int tries = 0; tries < TRIES; tries++) {
        c.layout = draw_layout(&d);
        draw_shape(&d, &c.config, &c.layout);
        draw_batch(&d, &c.config, &c.layout);
        int64_t rows = c.config.micro * c.config.model.sequence / c.layout.cp;
        if (!c.layout.sequence || rows % c.layout.tp == 0) return c;
    }
    fail_msg("no layout in %d tries", TRIES);
    return c;
}

static void case_print(const Case *c, int i)
{
    const Layout *l = &c->layout;
    const TrainConfig *config = &c->config;
    const ModelConfig  *s = &config->model;
    printf("case %d: tp %d%s cp %d dp %d pp %d order %d, %s x %d, zero %d hybrid %d; micro %d of %d; ", i, l->tp,
           l->sequence ? " seq" : "", l->cp, l->ranks / (l->tp * l->cp * l->pp), l->pp, l->order,
           schedule_name(l->schedule), l->chunks, l->zero, l->hybrid, (int)config->micro, (int)config->global);
    printf("layers %d hidden %d ffn %d heads %d/%d of %d words %d sequence %d of %d; ", (int)s->layers,
           (int)s->hidden, (int)s->ffn, (int)s->heads, (int)s->groups, (int)s->head_dim, (int)s->vocabulary,
           (int)s->sequence, (int)s->positions);
    printf("norm %d position %d activation %d bias %d%d%d tied %d dropout %g %g reset %d %d mask %d seed %d\n",
           s->norm, s->position, s->activation, s->qkv_bias, s->out_bias, s->mlp_bias, s->tied, s->hidden_dropout, s->attention_dropout,
           config->reset_positions, config->reset_attention, config->mask_eod, (int)config->seed);
    /* so that it is printed even if a rank stops the program */
    fflush(stdout);
}

/* ---- running ---- */

/* Nothing, whole layers in two ways, or modules; not drawn, so that it does not change the cases. */
static Recompute recompute_of(int i)
{
    switch (i % 4) {
    case 0:  return (Recompute){ 0, RECOMPUTE_NONE, 0 };
    case 1:  return (Recompute){ 0, RECOMPUTE_UNIFORM, 1 + i / 4 % 3 };
    case 2:  return (Recompute){ 0, RECOMPUTE_BLOCK, 1 + i / 4 % 2 };
    default: return (Recompute){ (unsigned)(i / 4 % 16), RECOMPUTE_NONE, 0 };
    }
}

/* Of the cp ranks the most that can exchange heads, or a part of them, or none; the others gather or form a
 * ring. Not drawn either. */
static void context_set(TrainConfig *config, int i)
{
    int heads = (int)config->model.heads / config->tp, u = config->cp;
    while (u > 1 && (heads % u || config->cp % u || (i % 4 == 1 && u == config->cp))) u--;
    config->ulysses = i % 4 == 3 ? 1 : u;
    config->gather  = i % 3 == 2;
}

static void window_set(TrainConfig *config, int i)
{
    config->model.window      = i % 5 < 2 ? 0 : 1 + i % 7;
    config->model.unwindowed = layer_set_every(i % 2 ? 0 : 2);
}

/* Latent attention */
static void latent_set(TrainConfig *config, int i)
{
    ModelConfig *m = &config->model;
    if (i % 4) return;
    m->latent  = (LatentConfig){ i % 8 < 4 ? 5 : 0, 3, m->head_dim > 2 ? 2 : 0, m->head_dim + 1 };
    m->groups  = m->heads;
    m->qk_norm = QK_NORM_NONE, m->norm = NORM_RMS, m->qkv_bias = false;
    m->position = m->latent.rope_dim > 0 ? POSITION_ROPE : POSITION_NONE;
}

/* So are these: hybrid sharding, the order of ranks, one key-value head for all ranks. */
static Case case_vary(const Case *c, int i)
{
    Case other = *c;
    int data = c->layout.ranks / (c->layout.tp * c->layout.pp);
    if (c->layout.zero > 0 && i % 3 == 1) other.layout.hybrid = data % 3 == 0 ? 3 : data % 2 == 0 ? 2 : 1;
    other.layout.order = i % 2 ? MESH_TP_PP_DP : MESH_TP_DP_PP;
    if (i % 5 == 2) other.config.model.groups = 1;
    return other;
}

static void case_run(const Case *c, int i)
{
    Job one = { .config = c->config, .ranks = 1, .steps = STEPS };
    Job job = { .config = c->config, .ranks = c->layout.ranks, .steps = STEPS };
    one.config.micro = 1;
    one.config.head_chunk = 0;
    job.config.head_chunk = i % 8;
    job.config.recompute = recompute_of(i);
    job.in_order = i % 3 == 0;                 /* no schedule deadlocks on a transport strictly in order */
    config_set_layout(&job.config, &c->layout);
    context_set(&job.config, i);
    window_set(&one.config, i);
    window_set(&job.config, i);
    latent_set(&one.config, i);
    latent_set(&job.config, i);
    job_run(&one);
    job_run(&job);
    for (int s = 0; s < STEPS; s++) {
        if (!(fabs(job.loss[s] - one.loss[s]) <= 1e-12))
            fail_msg("case %d, step %d: loss %.17g, on one rank %.17g", i, s + 1, job.loss[s], one.loss[s]);
        if (!(fabs(job.norm[s] - one.norm[s]) <= 1e-11))
            fail_msg("case %d, step %d: norm %.17g, on one rank %.17g", i, s + 1, job.norm[s], one.norm[s]);
    }
    for (int r = 0; r < job.ranks; r++)
        if (job.arena_off[r] != 0)
            fail_msg("case %d: rank %d took %lld bytes more or less than its dry run", i, r,
                     (long long)job.arena_off[r]);
}

/* ---- what was covered: pairs of axes, and each axis with each way of using it; sequence parallelism is one ---- */

enum { AXES = 5, FEATURES = 15 };
static const char *const axis_word[AXES] = { "tp", "cp", "dp", "pp", "seq" };
static const char *const feature_word[FEATURES] = {
    "tp", "cp", "dp", "pp", "seq", "zero0", "zero1", "zero2", "zero3", "1f1b", "inter", "zb-h1", "gpipe", "zb-v",
    "chunks" };
typedef struct { int count[AXES][FEATURES]; } Coverage;

static void coverage_add(Coverage *coverage, const Layout *l)
{
    int dp   = l->ranks / (l->tp * l->cp * l->pp);
    int zero = l->cp * dp > 1 ? l->zero : -1;      /* one data rank has nothing to share */
    ScheduleKind kind = l->pp > 1 ? l->schedule : SCHEDULE_FORWARD;
    bool axis[AXES] = { l->tp > 1, l->cp > 1, dp > 1, l->pp > 1, l->tp > 1 && l->sequence };
    bool feature[FEATURES] = {
        axis[0], axis[1], axis[2], axis[3], axis[4], zero == 0, zero == 1, zero == 2, zero == 3,
        kind == SCHEDULE_1F1B, kind == SCHEDULE_INTERLEAVED, kind == SCHEDULE_ZB_H1,
        kind == SCHEDULE_GPIPE, kind == SCHEDULE_ZB_V, l->chunks > 1 };
    for (int a = 0; a < AXES; a++)
        for (int f = 0; f < FEATURES; f++) coverage->count[a][f] += axis[a] && feature[f];
}

static int coverage_print(const Coverage *coverage)
{
    int empty = 0;
    printf("%8s", "");
    for (int f = 0; f < FEATURES; f++) printf("%8s", feature_word[f]);
    for (int a = 0; a < AXES; a++) {
        printf("\n%8s", axis_word[a]);
        for (int f = 0; f < FEATURES; f++) {
            printf("%8d", coverage->count[a][f]);
            empty += coverage->count[a][f] == 0;
        }
    }
    printf("\n");
    return empty;
}

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }

static void test_random(void **state)
{
    (void)state;
    int seed = number("JOTUN_SEED", SEED), cases = number("JOTUN_CASES", getenv("JOTUN_FULL") ? 1000 : CASES);
    int alone = number("JOTUN_CASE", -1);
    if (alone >= cases) fail_msg("JOTUN_CASE %d: there are %d cases, from 0", alone, cases);
    Coverage coverage = { { { 0 } } };
    printf("seed %d, %d cases\n", seed, cases);
    for (int i = 0; i < LAYOUTS; i++) coverage_add(&coverage, &layouts[i]);
    for (int i = 0; i < cases; i++) {
        Case drawn = case_draw((uint64_t)seed, i), c = case_vary(&drawn, i);
        coverage_add(&coverage, &c.layout);
        if (alone >= 0 && alone != i) continue;
        case_print(&c, i);
        case_run(&c, i);
    }
    int empty = coverage_print(&coverage);
    if (empty > 0 && seed == SEED && cases >= CASES)
        fail_msg("%d cells are empty: no layout of the table or the seed is there", empty);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    corpus_make(scratch_path("few words"), 5);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
