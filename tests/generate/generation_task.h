#ifndef TESTS_GENERATE_GENERATION_TASK_H
#define TESTS_GENERATE_GENERATION_TASK_H
/* Prompts that a tiny model continues under a layout, and what it is continued by. */
#include "generate/generate.h"
#include "eval/windows.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/moe_layouts.h"

enum { CAPACITY = 14, WORDS = 61, PROMPTS = 7, WIDEST = 9 };

/* ---- a run of a layout ---- */

/* What prompt p is continued by, and the logits that its ids were drawn from. */
typedef struct { int32_t id[CAPACITY]; int64_t made, ends; double logits[CAPACITY][WORDS]; } Text;

typedef struct {
    ModelName model;
    const char *device;
    Layout   layout;
    int64_t  rows;
    int      micros;
    int32_t  end;
    int64_t  window, page;
    int      beams;            /* beam search of each prompt, whose answers are `text` and `score` */
    double   score[PROMPTS];
    int      ulysses, etp, ep;
    bool     experts, int8, latent;
    bool     gather;
    int      threads;          /* 0: one */
    bool     unseen;           /* no logits are seen, so that several threads draw */
    bool     documents;        /* before it a batch is evaluated in which each token is a document */
    MixedPrecision mixed;
    Sampling sampling;
    Prompt   prompt[PROMPTS];
    int64_t  prompts;
    /* of world rank 0, which has all ids, and of rank 0 of the last stage of each data rank */
    Text     text[PROMPTS];
    bool     failed;
} Task;

/* With a window, which some layers have; a GPT then has the positions and the norm of a BLOOM. */
static void model_set(ModelConfig *model, const Task *task)
{
    if (task->latent) {
        model->latent = (LatentConfig){ .query_rank = 12, .kv_rank = 10, .rope_dim = 4, .value_dim = 6 };
        model->groups = model->heads;
    }
    model->window = task->window;
    model->unwindowed = layer_set_every(task->window ? 2 : 0);
    if (task->model != MODEL_GPT || task->window == 0) return;
    model->position = POSITION_ALIBI;
    model->embedding_norm = true;
}

/* Of one rank; texts are written by the ranks that `writes` says. */
typedef struct { Task *task; Text mine[PROMPTS]; bool emits, looks; Arena session; } Rank;

static void keep(void *context, int64_t prompt, int32_t id)
{
    Rank *rank = context;
    Text *text = &rank->mine[prompt];
    if (id == GENERATED_END) text->ends++;
    else                     text->id[text->made++] = id;
}

static void look(void *context, int64_t prompt, int64_t made, const double *logits)
{
    Rank *rank = context;
    if (rank->looks) memcpy(rank->task->text[prompt].logits[made], logits, sizeof rank->mine[0].logits[0]);
}

/* ---- beam search of all prompts at once ---- */

typedef struct { Rank *rank; int64_t next; } BeamSource;

static RequestAnswer beam_next(void *context, bool idle, Request *request)
{
    BeamSource *s = context;
    const Task *task = s->rank->task;
    (void)idle;
    if (s->next == task->prompts) return REQUEST_CLOSED;
    const Prompt *p = &task->prompt[s->next];
    *request = (Request){ .number = s->next++, .id = p->id, .count = p->count, .most = p->most, .alternatives = -1,
                          .beams = task->beams, .length_penalty = 0.5 };
    return REQUEST_GIVEN;
}

static bool beam_token(void *context, int64_t prompt, const GeneratedToken *token)
{
    keep(((BeamSource *)context)->rank, prompt, token->id);
    return true;
}

static void beam_scored(void *context, int64_t prompt, double score) { ((BeamSource *)context)->rank->task->score[prompt] = score; }

static void beam_ended(void *context, int64_t prompt, GenerationEnd reason)
{
    if (reason == END_LENGTH || reason == END_OF_TEXT) keep(((BeamSource *)context)->rank, prompt, GENERATED_END);
}

static void search(const EngineSetup *setup, Rank *rank)
{
    BeamSource source = { .rank = rank };
    Engine *engine = engine_open(setup);
    engine_run(engine, &(RequestSource){ .next = beam_next, .token = beam_token, .scored = beam_scored, .ended = beam_ended, .context = &source });
    engine_close(engine);
}

static void work(Trainer *t, void *context)
{
    Rank *rank = context;
    Task *task = rank->task;
    int64_t rows = task->rows * t->config->model.sequence / t->mesh.size.cp;
    if (task->documents && comm_dry(t->comms.world)) trainer_evaluate(t, 1, NULL, NULL);
    EngineSetup setup = { .executor = &t->train.executor, .pipeline = &t->train.pipeline, .schedule = &t->valid.schedule, .world = t->comms.world,
        .tp = t->comms.tp, .cp = t->comms.cp, .pp = t->comms.pp, .data = t->comms.dp_cp, .arena = &rank->session, .rows = rows, .page = task->page ? task->page : 3,
        .sequences = task->rows * task->micros, .capacity = CAPACITY, .end = task->end, .int8 = task->int8,
        .see_logits = task->unseen ? NULL : look, .context = rank };
    if (task->beams) search(&setup, rank);
    else generate(&setup, task->prompt, task->prompts, &task->sampling, keep);
}

/* No query sees the keys of another part, as after --reset-attention-mask. */
static void fill_documents(void *context, Batch *batch, int64_t step, int micro)
{
    const TrainConfig *config = context;
    int64_t S = config->model.sequence, cp = config->cp, u = config->ulysses > 0 ? config->ulysses : 1;
    int64_t group = batch->part[0] / (S / (2 * cp)) / u, half = u * S / (2 * cp);
    int32_t ids[] = { 1, 2 };
    Windows w = { .ids = ids, .count = 2, .config = { .sequence = S, .micro = config->micro, .global = config->global, .dp = 1, .cp = (int)cp } };
    windows_fill(&w, batch, step, micro);
    for (int64_t i = 0; i < config->micro * 2 * half; i++) {
        int64_t n = i % (2 * half), at = n < half ? group * half + n : S - (group + 2) * half + n;
        int32_t *keys = (int32_t *)batch->key_range_i.data + 2 * i;
        keys[0] = (int32_t)at;
        keys[1] = (int32_t)at + 1;
    }
    batch_bound_keys(batch);
}

static Status run_rank(Transport *transport, void *context)
{
    Task *task = context;
    Rank rank = { .task = task };
    Trainer t;
    const Layout *l = &task->layout;
    TrainConfig config = task->experts ? moe_config(task->model, task->device, NULL) : tiny_config(task->model, task->device, NULL);
    config_set_layout(&config, l);
    config.etp = task->etp;
    config.ep  = task->ep;
    int64_t unit = (l->sequence ? l->tp : 1) * (l->cp > 1 ? 2 * l->cp : 1);
    config.training = false;
    if (task->threads) config.threads = task->threads;
    config.reset_attention |= task->documents;
    model_set(&config.model, task);
    config.precision.mixed = task->mixed;
    config.ulysses = l->cp > 1 ? task->ulysses : 0;
    config.gather  = l->cp > 1 && task->gather;
    config.model.sequence = (WIDEST + unit - 1) / unit * unit;
    config.micro  = task->rows;
    config.global = task->rows * task->micros * (l->ranks / (l->tp * l->pp * l->cp));
    arena_dry(&rank.session, "session");
    TRY(trainer_start_work(&t, &config, transport, work, &rank));
    size_t bytes = rank.session.peak;
    arena_close(&rank.session);
    TRY(arena_open(&rank.session, "session", bytes));
    trainer_init(&t);
    if (task->documents) trainer_evaluate(&t, 1, fill_documents, &config);
    rank.looks = t.mesh.at.pp == l->pp - 1 && t.mesh.at.tp == l->tp - 1;
    work(&t, &rank);
    bool more = rank.session.used != bytes;
    for (int i = 0; i < ARENAS; i++) more |= t.arena[i].peak > t.arena[i].size;
    if (more) __atomic_store_n(&task->failed, true, __ATOMIC_RELAXED);
    if (transport->rank == 0)
        for (int p = 0; p < PROMPTS; p++) {
            memcpy(task->text[p].id, rank.mine[p].id, sizeof rank.mine[p].id);
            task->text[p].made = rank.mine[p].made;
            task->text[p].ends = rank.mine[p].ends;
        }
    arena_close(&rank.session);
    trainer_close(&t);
    return OK;
}

static void run(Task *task)
{
    memset(task->text, 0, sizeof task->text);
    if (transport_threads_run(task->layout.ranks, run_rank, task) != OK) fail_msg("%s", fail_text());
    if (task->failed) fail_msg("%s: memory is not that of the dry run", task->layout.name);
    for (int64_t p = 0; p < task->prompts; p++) assert_int_equal(task->text[p].ends, 1);
}
#endif
