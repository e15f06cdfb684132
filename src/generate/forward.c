/* The memory of an engine, the batches of its forwards, a forward under the layout, and the draw after it. */
#include "generate/forward.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/integer.h"
#include "generate/int8_weights.h"

/* Each thread that draws has memory of its own, for which a few are enough. */
enum { SAMPLING_THREADS_MOST = 8 };

static bool holds_unit(const Forward *f, int64_t unit) { return stage_holds(f->g->executor->stage, unit); }
static const ModelConfig *model(const Forward *f) { return f->g->executor->ctx.config; }
static bool holds_head(const Forward *f) { return holds_unit(f, model_head(model(f))); }

int64_t text_pages(const EngineSetup *g, int64_t positions) { return divide_up(positions, page_span(g)); }

int64_t engine_pages(const EngineSetup *g)
{
    return g->pages > 0 ? g->pages : g->sequences * text_pages(g, g->capacity);
}

/* ---- memory ---- */

static void *host_new(int64_t count, size_t bytes)
{
    void *p = calloc((size_t)most_of(count, 1), bytes);
    CHECK(p, "no memory for %lld rows of generation", (long long)count);
    return p;
}

/* [N, L, G, width], a view of [N, G, L, width], in which the positions of a head follow each other: attention
 * of one token reads a page head by head, and memory is fastest in order. Zeros, since attention multiplies
 * masked keys and values by zero. */
static Tensor cache_new(const Forward *f, const char *what, int64_t width)
{
    const ExecContext *ctx = &f->g->executor->ctx;
    Tensor t = tensor_new(f->g->arena, what, ctx->precision.activation, engine_pages(f->g),
        model_groups_held(ctx->config, comm_size(f->g->tp)), f->g->page, width);
    fill_zero(ctx->queue, (FillZero){ .y = t });
    int64_t dim = t.dim[1], stride = t.stride[1];
    t.dim[1] = t.dim[2], t.stride[1] = t.stride[2];
    t.dim[2] = dim,      t.stride[2] = stride;
    return t;
}

static Tensor logits_new(const Forward *f, int64_t shards)
{
    const ExecContext *ctx = &f->g->executor->ctx;
    return tensor_new(f->g->arena, "logits", ctx->precision.statistic, shards, logits_room(f->g),
        model_vocabulary_held(ctx->config, comm_size(f->g->tp)));
}

static Tensor numbers_new(const Forward *f, const char *what, int64_t rows, int64_t columns)
{
    Tensor t = tensor_new(f->g->arena, what, I32, rows, columns);
    if (t.data) memset(t.data, 0, tensor_bytes(t));
    return t;
}

/* What is gathered over one rank is the rank's own tensor. */
static Tensor results_new(const Forward *f, Tensor from, int64_t ranks)
{
    return ranks == 1 ? from : tensor_new(f->g->arena, "drawn tokens", I32, ranks, tensor_count(from));
}

/* Those of fewer micro-batches are made from the caller's. */
static void schedules_make(Forward *f)
{
    ScheduleShape shape = f->g->schedule->shape;
    f->schedule = host_new(shape.micros, sizeof *f->schedule);
    for (int m = 1; m <= f->g->schedule->shape.micros; m++) {
        shape.micros = m;
        CHECK(schedule_make(&f->schedule[m - 1], &shape, f->g->schedule->stage) == OK, "%s", fail_text());
    }
}

static void caches_open(Forward *f)
{
    const EngineSetup *g = f->g;
    int64_t most = text_pages(g, g->capacity);
    f->cache = host_new(model(f)->layers, sizeof *f->cache);
    for (int64_t i = 0; i < model(f)->layers; i++)
        if (holds_unit(f, i + 1))
            f->cache[i] = (KvCache){ cache_new(f, "keys", model(f)->head_dim),
                                     cache_new(f, "values", model_value_dim(model(f))) };
    f->page_i     = numbers_new(f, "page table", g->sequences, most);
    f->slot_i     = numbers_new(f, "places of rows", g->rows, 1);
    f->sequence_i = numbers_new(f, "texts of rows", g->rows, 1);
    for (int k = 0; k < KEY_RANGES; k++) f->key_range_i[k] = numbers_new(f, "key ranges", g->rows, 2);
    if (model(f)->position == POSITION_ALIBI && cp_ranks(g) > 1)
        f->key_position_i = numbers_new(f, "positions of keys", engine_pages(g), g->page);
}

void forward_open(Forward *f, const EngineSetup *g, Sequence *sequence)
{
    StageExecutor *executor = g->executor;
    *f = (Forward){ .g = g, .sequence = sequence };
    schedules_make(f);
    int8_weights_open(&f->int8, g);
    caches_open(f);
    f->whole = host_new(executor->slots, sizeof *f->whole);
    for (int i = 0; i < executor->slots; i++) f->whole[i] = stage_executor_slot(executor, i)->batch;
    CHECK(g->rows <= f->whole[0].token_i.dim[0], "micro-batches of %lld positions in slots of %lld",
        (long long)g->rows, (long long)f->whole[0].token_i.dim[0]);
    f->logits_row = host_new(g->rows, sizeof *f->logits_row);
    f->result_n   = numbers_new(f, "drawn tokens", logits_room(g), result_words(ALTERNATIVES_MOST));
    f->result_Pn  = results_new(f, f->result_n, comm_size(g->pp));
    f->result_Dn  = results_new(f, f->result_n, comm_size(g->data));
    if (!holds_head(f)) return;
    f->logits_nV  = logits_new(f, 1);
    f->logits_RnV = comm_size(g->tp) > 1 ? logits_new(f, comm_size(g->tp)) : f->logits_nV;
    f->draw_n  = host_new(logits_room(g), sizeof *f->draw_n);
    int64_t threads = least(executor->ctx.queue->threads, SAMPLING_THREADS_MOST);
    f->sampling_threads = (int)least(threads, logits_room(g));
    f->sample  = host_new(f->sampling_threads, sizeof *f->sample);
    for (int i = 0; i < f->sampling_threads; i++) {
        int64_t V = model(f)->vocabulary;
        Tensor room = tensor_new(g->arena, "memory of a draw", U8, sample_bytes(V));
        if (room.data) sample_open(&f->sample[i], V, g->ids ? g->ids : V, room.data);
    }
}

/* The trainer's evaluations and steps find the executor as they left it. */
void forward_close(Forward *f)
{
    StageExecutor *executor = f->g->executor;
    for (int i = 0; i < executor->slots; i++) stage_executor_slot(executor, i)->batch = f->whole[i];
    for (int m = 0; m < f->g->schedule->shape.micros; m++) schedule_free(&f->schedule[m]);
    executor->ctx.caches     = NULL;
    executor->ctx.logits_bV  = tensor_none();
    executor->ctx.logits_row = NULL;
    int8_weights_close(&f->int8, f->g);
    free(f->sample);
    free(f->draw_n);
    free(f->schedule);
    free(f->cache);
    free(f->whole);
    free(f->logits_row);
}

void forward_copy_page(void *forward, int64_t from, int64_t to)
{
    Forward *f = forward;
    Queue *q = f->g->executor->ctx.queue;
    for (int64_t i = 0; i < model(f)->layers; i++)
        for (int kind = 0; tensor_present(f->cache[i].k) && kind < 2; kind++) {
            Tensor pages = kind == 0 ? f->cache[i].k : f->cache[i].v;
            copy_strided(q, (CopyStrided){ .y = tensor_slice(pages, 0, to, 1),
                                           .x = tensor_slice(pages, 0, from, 1) });
        }
    if (tensor_present(f->key_position_i))
        copy_strided(q, (CopyStrided){ .y = tensor_slice(f->key_position_i, 0, to, 1),
                                       .x = tensor_slice(f->key_position_i, 0, from, 1) });
}

/* ---- the batch of a forward ---- */

/* A view of the first T rows of a batch, as one sequence. Without targets and loss weights: no loss is
 * computed. */
static Batch batch_view(const Batch *whole, int64_t T)
{
    return (Batch){ .token_i = tensor_flat(whole->token_i, 0, T),
        .position_i = tensor_flat(whole->position_i, 0, T),
        .dropout_index_i = tensor_flat(whole->dropout_index_i, 0, T),
        .sample_i = tensor_flat(whole->sample_i, 0, 1) };
}

static int32_t *at(Tensor x_i, int64_t i) { return (int32_t *)x_i.data + i; }

static int64_t clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x < high ? x : high; }

/* How many of the first `positions` keys of a text are in the pages of this cp rank. */
static int64_t keys_held(const EngineSetup *g, int64_t positions)
{
    int64_t span = page_span(g), L = g->page;
    return positions / span * L + clamp(positions % span - comm_rank(g->cp) * L, L);
}

static void row_set(Forward *f, const Batch *batch, int64_t t, int32_t id, int64_t position)
{
    *at(batch->token_i, t)         = id;
    *at(batch->position_i, t)      = (int32_t)position;
    *at(batch->dropout_index_i, t) = 0;
    *at(f->slot_i, t) = -1;
    *at(f->sequence_i, t) = 0;
    for (int k = 0; k < KEY_RANGES; k++) memset(at(f->key_range_i[k], 2 * t), 0, 2 * sizeof(int32_t));
}

/* A row of a text: the place of its key if this cp rank has it, and the keys here that it sees. */
static void cache_set(Forward *f, int64_t t, int64_t slot, int64_t position)
{
    const EngineSetup *g = f->g;
    int64_t span = page_span(g), L = g->page, window = model(f)->window;
    int64_t back = window > 0 && position + 1 > window ? position + 1 - window : 0;
    int32_t page = *at(f->page_i, slot * f->page_i.dim[1] + position / span);
    if (position % span / L == comm_rank(g->cp)) {
        *at(f->slot_i, t) = (int32_t)(page * L + position % L);
        if (tensor_present(f->key_position_i))
            *at(f->key_position_i, page * L + position % L) = (int32_t)position;
    }
    *at(f->sequence_i, t) = (int32_t)slot;
    for (int k = 0; k < KEY_RANGES; k++) {
        at(f->key_range_i[k], 2 * t)[0] = k > 0 ? (int32_t)keys_held(g, back) : 0;
        at(f->key_range_i[k], 2 * t)[1] = (int32_t)keys_held(g, position + 1);
    }
}

/* The rows of micro-batch `micro`: those of its segments, and padding that sees nothing. Returns the tokens
 * that are drawn after it; *before: those of earlier ones. */
static int64_t rows_fill(Forward *f, const Batch *batch, int micro, int64_t *before)
{
    int64_t t = 0, drawn = 0;
    *before = 0;
    for (int64_t i = 0; i < f->plan->segments; i++) {
        const Segment *s = &f->plan->segment[i];
        if (s->data != data_rank(f->g)) continue;
        if (s->micro < micro) *before += s->draws;
        if (s->micro != micro) continue;
        const int32_t *id = f->sequence[s->data * f->g->sequences + s->slot].id + s->position;
        for (int64_t n = 0; n < s->count; n++, t++) {
            row_set(f, batch, t, id[n], s->position + n);
            cache_set(f, t, s->slot, s->position + n);
        }
        for (int64_t n = s->draws; n > 0; n--) f->logits_row[drawn++] = t - n;
    }
    for (; t < f->plan->rows; t++) row_set(f, batch, t, 0, 0);
    *at(batch->sample_i, 0) = 0;
    return drawn;
}

static void fill(void *context, Batch *batch, int micro)
{
    Forward *f = context;
    ExecContext *ctx = &f->g->executor->ctx;
    int64_t T = f->plan->rows, before = 0, drawn = least(logits_room(f->g), T);
    if (!comm_dry(f->g->tp)) drawn = rows_fill(f, batch, micro, &before);
    f->caches = (KvCaches){ .layer = f->cache, .page_i = f->page_i, .cp = f->g->cp,
        .slot_i = tensor_flat(f->slot_i, 0, T), .sequence_i = tensor_flat(f->sequence_i, 0, T),
        .key_position_i = f->key_position_i };
    for (int k = 0; k < KEY_RANGES; k++) f->caches.key_range_i[k] = tensor_slice(f->key_range_i[k], 0, 0, T);
    ctx->caches     = &f->caches;
    ctx->logits_row = f->logits_row;
    ctx->logits_bV  = tensor_none();
    if (holds_head(f) && drawn > 0)
        ctx->logits_bV = tensor_slice(tensor_view(f->logits_nV, logits_room(f->g), f->logits_nV.dim[2]), 0,
                                      before, drawn);
}

/* ---- the draw ---- */

/* The logits of token i from the shards of all tp ranks, n tokens each. Returns whether they are finite. */
static bool logits_of(const Forward *f, double *logits, int64_t i, int64_t n)
{
    Tensor all = f->logits_RnV;
    int64_t vocabulary = model(f)->vocabulary, V = all.dim[2];
    bool finite = true;
    for (int64_t r = 0; r * V < vocabulary; r++) {
        int64_t from = (r * n + i) * V, count = least(V, vocabulary - r * V);
        finite &= all.dtype == F64 ? sample_copy(logits + r * V, (const double *)all.data + from, count)
                                   : sample_widen(logits + r * V, (const float *)all.data + from, count);
    }
    CHECK(f->g->not_finite_ends || finite,
          "the logits are not finite: the weights of the checkpoint are broken");
    return finite;
}

/* From logits i of n, those after a position: the next token, or of a prompt's own one its log-probability */
static void draw_one(const Forward *f, SampleWork *w, int64_t i, int64_t n)
{
    const EngineSetup *g = f->g;
    const Sequence *s = f->draw_n[i].text;
    const Request *r = &s->request;
    int32_t *word = at(f->result_n, i * result_words(f->plan->alternatives));
    int64_t position = f->draw_n[i].position, generated = position + 1 - r->count;
    int64_t wanted = r->beams > 0 ? 2 * r->beams : r->alternatives;
    memset(word, 0, (size_t)result_words(f->plan->alternatives) * sizeof *word);
    bool finite = logits_of(f, w->logits, i, n);
    if (g->see_logits && generated >= 0) g->see_logits(g->context, r->number, generated, w->logits);
    word[RESULT_ID] = NOT_FINITE;
    if (!finite) return;
    int32_t *id = word + RESULT_FIRST;
    float *logprob = (float *)(void *)(id + f->plan->alternatives);
    double lse = wanted >= 0 ? sample_lse(w) : 0;
    if (wanted > 0) sample_likeliest(w, id, logprob, wanted, lse);
    word[RESULT_ID] = 0;
    if (r->beams > 0) return;
    if (generated < 0) word[RESULT_ID] = s->id[position + 1];
    else word[RESULT_ID] = sample_draw(w, &r->sampling, s->id, r->count, s->length, r->stream);
    if (wanted < 0) return;
    float own = sample_logprob(w, word[RESULT_ID], lse);
    memcpy(word + RESULT_LOGPROB, &own, sizeof own);
}

static void draw_thread(void *context, int thread, int threads)
{
    const Forward *f = context;
    (void)threads;
    if (thread >= f->sampling_threads) return;
    for (int64_t i; (i = team_claim(f->g->executor->ctx.queue->team, thread)) >= 0;)
        draw_one(f, &f->sample[thread], i, f->draws);
}

/* The host reads logits here and nowhere else. All tp ranks draw the same ids from the same numbers. */
static void draw_own(Forward *f)
{
    Team *team = f->g->executor->ctx.queue->team;
    f->draws = 0;
    for (int64_t k = 0; k < f->plan->segments; k++) {
        const Segment *s = &f->plan->segment[k];
        if (s->data != data_rank(f->g)) continue;
        const Sequence *text = &f->sequence[s->data * f->g->sequences + s->slot];
        for (int64_t last = s->position + s->count, p = last - s->draws; p < last; p++)
            f->draw_n[f->draws++] = (Draw){ text, p };
    }
    if (f->draws > 1 && !f->g->see_logits) {
        team_share(team, f->draws);
        team_run(team, draw_thread, f);
    } else {
        for (int64_t i = 0; i < f->draws; i++) draw_one(f, &f->sample[0], i, f->draws);
    }
}

static int64_t drawn_here(const Forward *f)
{
    int64_t n = 0;
    for (int64_t i = 0; i < f->plan->segments; i++)
        n += f->plan->segment[i].data == data_rank(f->g) ? f->plan->segment[i].draws : 0;
    return comm_dry(f->g->tp) ? f->plan->results : n;
}

static const int32_t *draw(Forward *f)
{
    const EngineSetup *g = f->g;
    Queue *q = g->executor->ctx.queue;
    int64_t n = drawn_here(f), words = f->plan->results * result_words(f->plan->alternatives);
    int P = comm_size(g->pp), D = comm_size(g->data);
    if (holds_head(f) && comm_size(g->tp) > 1 && n > 0) {
        int64_t own = n * f->logits_nV.dim[2];
        comm_all_gather(g->tp, q, tensor_flat(f->logits_RnV, 0, comm_size(g->tp) * own),
                        tensor_flat(f->logits_nV, 0, own));                       /* <-> tp: all-gather */
    }
    queue_wait(q);
    if (holds_head(f) && !comm_dry(g->tp)) draw_own(f);
    if (words == 0) return f->result_n.data;
    Tensor result = tensor_flat(f->result_n, 0, words);
    Tensor of_stages = tensor_flat(f->result_Pn, 0, P * words), all = tensor_flat(f->result_Dn, 0, D * words);
    if (P > 1) comm_all_gather(g->pp, q, of_stages, result);                      /* <-> pp: all-gather */
    const ScheduleShape *shape = &g->schedule->shape;
    int head = schedule_place(shape, shape->stages * shape->chunks - 1).stage;       /* the stage that drew */
    if (P > 1) result = tensor_flat(f->result_Pn, head * words, words);
    if (D > 1) comm_all_gather(g->data, q, all, result);                          /* <-> dp: all-gather */
    queue_wait(q);
    return D > 1 ? f->result_Dn.data : result.data;
}

/* ---- a forward ---- */

/* All cp ranks compute all rows, each over the keys that it has. */
const int32_t *forward_run(Forward *f, const ForwardPlan *plan)                  /* <-> tp, cp, pp, data */
{
    const EngineSetup *g = f->g;
    ExecContext *ctx = &g->executor->ctx;
    ContextComms cp = ctx->cp;
    bool drop = ctx->drop;
    f->plan = plan;
    for (int i = 0; i < g->executor->slots; i++)
        stage_executor_slot(g->executor, i)->batch = batch_view(&f->whole[i], plan->rows);
    ctx->cp   = (ContextComms){ .ring = NULL };
    ctx->drop = false;
    pipeline_run(g->pipeline, &f->schedule[plan->micros - 1], (PipelineCalls){ .context = f, .fill = fill });
    ctx->cp   = cp;
    ctx->drop = drop;
    return draw(f);
}
